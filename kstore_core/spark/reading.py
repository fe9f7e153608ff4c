"""read_store: a version of a partitioned store as a DataFrame, a shard a partition."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spark.frames import headers_type, spark_type
from kstore_core.spark.manifest import Manifest, Shard
from kstore_core.spark.roots import Root
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.types import Time, to_millis

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kstore_core.spark.contents import Selection, ShardReader

__all__ = ["manifest_spec", "read_store"]

Timestamps = Literal["timestamp", "millis"]
_BATCH_ROWS = 10_000


def read_store(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    columns: Sequence[str] | None = None,
    timestamps: Timestamps = "timestamp",
    version: int | None = None,
    spec: StoreSpec | None = None,
) -> DataFrame:
    """Read a partitioned store.

    The DataFrame keeps to the version that was the newest when it was made.

    Parameters
    ----------
    spark : SparkSession
    root : path
        Where :func:`write_store` published it.
    as_of : int or datetime, optional
        Versioned stores: the versions valid at this time (ms since the epoch, or an aware datetime)
        instead of the latest. Before the history that a shard keeps, those that are the latest
        still, as ``store.get(key, as_of=…)`` answers.
    history : bool
        Versioned stores: every version that is kept, tombstones left out.
    from_ts, to_ts : int or datetime, optional
        With ``history``: versions valid at some time between the two, inclusive.
    columns : sequence of str, optional
        Which columns, in this order; what is not asked for is not decoded.
    timestamps : {"timestamp", "millis"}
        Whether times are Spark timestamps or long milliseconds since the epoch.
    version : int, optional
        Another than the newest.
    spec : StoreSpec, optional
        The store's description; needed where its serdes are not built in.

    Returns
    -------
    DataFrame
        ``key``, ``value`` (of the types that the serdes name), then as far as the store keeps them
        ``timestamp``, ``valid_to`` (null: still valid) and ``headers``; and ``partition``.

    Raises
    ------
    StateError
        There is no manifest, or not that version.
    TypeError
        ``version`` is not an int.
    SpecError
        ``spec`` is another store's, its serdes are unknown here, there is no such column, or
        ``columns`` is empty or names one twice.
    UnsupportedError
        A question of time to a store without versions.
    """
    from kstore_core.spark.contents import Selection, ShardReader

    home = Root.at(root)
    manifest = home.load(version)
    spec = manifest_spec(manifest, spec, str(home.path))
    if timestamps not in ("timestamp", "millis"):
        raise ValueError(f"timestamps={timestamps!r}; there are: 'timestamp', 'millis'")
    if as_of is not None and history:
        raise ValueError("as_of and history are two questions; ask one")
    if not history and (from_ts is not None or to_ts is not None):
        raise ValueError("from_ts and to_ts go with history=True")
    if not spec.format.versioned and (as_of is not None or history):
        raise UnsupportedError(
            f"the store {spec.name!r} has the format {spec.format.name!r}, which keeps no history; "
            "read it without as_of and history"
        )
    selection = Selection(
        None if as_of is None else to_millis(as_of),
        history,
        None if from_ts is None else to_millis(from_ts),
        None if to_ts is None else to_millis(to_ts),
    )
    if None not in (from_ts, to_ts) and selection.from_ts > selection.to_ts:  # type: ignore[operator]
        raise ValueError(f"from_ts={from_ts} lies after to_ts={to_ts}")
    available = _schema(spec, timestamps)
    names = available.names if columns is None else list(columns)
    if not names:
        raise SpecError(
            f"columns={columns!r} asks for no column, and rows without columns cannot be counted; "
            f"name at least one of: {', '.join(available.names)}"
        )
    unknown = [name for name in names if name not in available.names]
    if unknown:
        raise SpecError(
            f"the store {spec.name!r} has no column {unknown[0]!r}; "
            f"it has: {', '.join(available.names)}"
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise SpecError(
            f"columns={columns!r} asks for {twice[0]!r} more than once; name each column once"
        )
    from pyspark.sql.types import StructType

    task = ShardTask(
        ShardReader(home, spec, manifest.engine),
        tuple(shard for shard in manifest.shards if shard.path is not None),
        selection,
        tuple(names),
        as_millis=timestamps == "millis",
    )
    count = len(task.shards)
    numbers = spark.range(0, count, 1, max(count, 1))
    return numbers.mapInArrow(task.read, StructType([available[name] for name in names]))


@dataclass(frozen=True, slots=True)
class ShardTask:
    """What the tasks of a read do; :meth:`read` is what ``mapInArrow`` runs."""

    reader: ShardReader
    shards: tuple[Shard, ...]
    selection: Selection
    columns: tuple[str, ...]
    as_millis: bool

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the shards whose places in ``shards`` are given."""
        import pyarrow as pa

        for batch in batches:
            for place in batch.column(0).to_pylist():
                shard = self.shards[place]
                for chunk in self.reader.chunks(shard, self.selection, self.columns):
                    table = pa.table(
                        [self._column(chunk, name, shard.shard) for name in self.columns],
                        names=list(self.columns),
                    )
                    yield from table.combine_chunks().to_batches(_BATCH_ROWS)

    def _column(self, chunk: pa.Table, name: str, shard: int) -> Any:
        import numpy as np
        import pyarrow as pa

        from kstore_core import arrow
        from kstore_core.spark.columns import timestamps

        if name == "partition":
            return pa.array(np.full(chunk.num_rows, shard, np.int32))
        column = chunk[name].combine_chunks()
        if name == "key":
            return arrow.to_typed(self.reader.spec.key, column)
        if name == "value":
            return arrow.to_typed(self.reader.spec.value, column)
        if name in ("timestamp", "valid_to"):
            return timestamps(column, as_millis=self.as_millis)
        return column


def manifest_spec(manifest: Manifest, given: StoreSpec | None, where: str) -> StoreSpec:
    """The description of the store that a manifest is of.

    Raises
    ------
    SpecError
        Its serdes are not built in and none were given, or ``given`` is of another store.
    """
    import json

    stored = StoredSpec.parse(json.dumps(dict(manifest.spec)).encode())
    if given is None:
        try:
            return stored.spec()
        except SpecError as error:
            raise SpecError(f"{where}: {error}. Pass the store's description as spec=") from None
    if given.name != stored.name:
        raise SpecError(f"{where} holds the store {stored.name!r}, not {given.name!r}")
    stored.check(given, where)
    return given


def _schema(spec: StoreSpec, timestamps: Timestamps) -> StructType:
    from pyspark.sql.types import IntegerType, LongType, StructType, TimestampType

    time = TimestampType() if timestamps == "timestamp" else LongType()
    schema = StructType()
    schema.add("key", spark_type(spec.key.arrow_type))
    schema.add("value", spark_type(spec.value.arrow_type))
    if spec.format.timestamped:
        schema.add("timestamp", time)
    if spec.format.versioned:
        schema.add("valid_to", time)
    if spec.format.headers:
        schema.add("headers", headers_type())
    return schema.add("partition", IntegerType())

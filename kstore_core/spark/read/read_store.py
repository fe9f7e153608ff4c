"""read_store: a version of a partitioned store as a DataFrame, a shard a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.errors import SpecError
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import spark_schema
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.types import Time

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kstore_core.spark.read.plan import Plan, Task

__all__ = ["Timestamps", "frame_of", "manifest_spec", "read_store"]

Timestamps = Literal["timestamp", "millis"]


def read_store(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    key: Any = None,
    keys: Iterable[Any] | None = None,
    prefix: str | bytes | None = None,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    headers: bool | None = None,
    timestamps: Timestamps = "timestamp",
    version: int | None = None,
    spec: StoreSpec | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Read a partitioned store of any shape.

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
        With ``history``: versions valid at some time between the two, inclusive. Window and session
        stores: windows and sessions that have a moment in common with that time.
    key : object, optional
        Only the records of this key, as the store's serde takes it. Only its shard is opened.
    keys : iterable, optional
        Only the records of these keys.
    prefix : str or bytes, optional
        Only the records whose serialised key begins like this.
    columns : sequence of str, optional
        Which columns, in this order; what is not asked for is not decoded.
    partitions : sequence of int, optional
        Only these shards.
    headers : bool, optional
        Whether there is a column of headers. Left out: where the store keeps them.
    timestamps : {"timestamp", "millis"}
        Whether times are Spark timestamps or long milliseconds since the epoch.
    version : int, optional
        Another than the newest.
    spec : StoreSpec, optional
        The store's description; needed where its serdes are not built in.
    storage_options : mapping, optional
        Of the object store that ``root`` is in.

    Returns
    -------
    DataFrame
        ``key``; ``window_start`` and ``window_end``, or ``session_start`` and ``session_end``;
        ``sequence``, where a window store retains duplicates; ``value``; as far as the store keeps
        them ``timestamp``, ``valid_to`` (null: still valid) and ``headers``; and ``partition``.
        Keys and values are of the types that the serdes name.

    Raises
    ------
    StateError
        There is no manifest, or not that version.
    TypeError
        ``version`` is not an int, ``keys`` is a single key.
    ValueError
        A naive time.
    SpecError
        Questions that exclude each other, a range that is the wrong way round; ``spec`` is another
        store's, its serdes are unknown here, a key is none of this store, there is no such column
        or partition, or ``columns`` is empty or names one twice.
    UnsupportedError
        A question of time to a store that does not keep what it is about.
    """
    from kstore_core.spark.read.plan import plan_store
    from kstore_core.spark.read.selection import keys_of, prefix_bytes

    home = Root.at(root, storage_options)
    manifest = home.load(version)
    spec = manifest_spec(manifest, spec, str(home))
    plan = plan_store(
        home,
        manifest,
        spec,
        as_of=as_of,
        history=history,
        from_ts=from_ts,
        to_ts=to_ts,
        keys=keys_of(spec, key, keys),
        prefix=None if prefix is None else prefix_bytes(prefix),
        columns=columns,
        partitions=partitions,
        headers=headers,
        timestamps=timestamps,
    )
    return frame_of(spark, plan)


def frame_of(spark: SparkSession, plan: Plan) -> DataFrame:
    """A plan as a DataFrame, a part a partition."""
    count = len(plan.parts)
    numbers = spark.range(0, count, 1, max(count, 1))
    return numbers.mapInArrow(_Parts(plan.task, plan.parts).read, spark_schema(plan.task.schema))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What ``mapInArrow`` runs: :meth:`read`."""

    task: Task
    parts: tuple[Any, ...]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the parts whose places are given."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from self.task.read(self.parts[place])


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

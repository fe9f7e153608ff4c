"""read_store: a version of a partitioned store as a DataFrame, one partition for each shard."""

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

    from kstore_core.spark.read.plan import ReadPlan, Task

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

    The DataFrame always reads one version, by default the newest when it is made.

    Parameters
    ----------
    spark : SparkSession
    root : path
        Where :func:`write_store` published it.
    as_of : int or datetime, optional
        Versioned stores: the versions valid at this time (ms since the epoch, or an aware
        datetime). Before the start of a shard's history, only versions that are still the latest,
        as in ``store.get(key, as_of=…)``.
    history : bool
        Versioned stores: all versions, without tombstones.
    from_ts, to_ts : int or datetime, optional
        With ``history``: versions valid at some time in this range, inclusive. Window and session
        stores: windows and sessions that overlap the range.
    key : object, optional
        Only records of this key, of the type of the store's serde; only its shard is opened.
    keys : iterable, optional
        Only records of these keys.
    prefix : str or bytes, optional
        Only records whose serialised key begins with this prefix.
    columns : sequence of str, optional
        Only these columns, in this order; others are not decoded.
    partitions : sequence of int, optional
        Only these shards.
    headers : bool, optional
        Add a column of headers; by default if the store has headers.
    timestamps : {"timestamp", "millis"}
        Type of times: Spark timestamps, or long milliseconds since the epoch.
    version : int, optional
        By default the newest.
    spec : StoreSpec, optional
        The store's description; needed if its serdes are not built in.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    DataFrame
        ``key``; ``window_start`` and ``window_end``, or ``session_start`` and ``session_end``;
        ``sequence`` of window stores that retain duplicates; ``value``; if the store has them
        ``timestamp``, ``valid_to`` (null: still valid) and ``headers``; and ``partition``. Keys and
        values have the types of the serdes.

    Raises
    ------
    StateError
        There is no manifest, or no such version.
    TypeError
        ``version`` is not an int, or ``keys`` is a single key.
    ValueError
        A time is naive, or both ``key`` and ``keys`` are given.
    SpecError
        Options exclude each other; a range is reversed; ``spec`` is of another store; serdes are
        unknown; a key is of another type; a column or partition is unknown, duplicate or missing.
    UnsupportedError
        A time is given for a store without history, windows or sessions.
    """
    from kstore_core.spark.read.plan import View, plan_store
    from kstore_core.spark.read.selection import keys_of, prefix_bytes, select

    at = Root.at(root, storage_options)
    manifest = at.load(version)
    spec = manifest_spec(manifest, spec, str(at))
    wanted = keys_of(spec, key, keys)
    selection = select(spec, as_of, history, from_ts, to_ts, wanted, prefix_bytes(prefix))
    view = View(columns, partitions, headers, timestamps)
    return frame_of(spark, plan_store(at, manifest, spec, selection, view))


def frame_of(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """Make the DataFrame of a plan, with one partition for each part."""
    count = len(plan.parts)
    numbers = spark.range(0, count, 1, max(count, 1))
    return numbers.mapInArrow(_Parts(plan.task, plan.parts).read, spark_schema(plan.task.schema))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a plan; ``mapInArrow`` runs :meth:`read`."""

    task: Task
    parts: tuple[Any, ...]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the parts at the given positions."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from self.task.read(self.parts[place])


def manifest_spec(manifest: Manifest, given: StoreSpec | None, where: str) -> StoreSpec:
    """Return the description of a manifest's store, with the serdes of ``given``.

    A SpecError if ``given`` is of another store, or is None and the serdes are not built in.
    """
    import json

    stored = StoredSpec.parse(json.dumps(dict(manifest.spec)).encode())
    if given is None:
        try:
            return stored.spec()
        except SpecError as error:
            raise SpecError(f"{where}: {error}. Pass the store's description as spec=") from None
    if given.name != stored.name:
        raise SpecError(f"{where} has the store {stored.name!r}, not {given.name!r}")
    stored.check(given, where)
    return given

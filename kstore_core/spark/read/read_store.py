"""The function read_store, which reads a version of a partitioned store as a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.root.root import loaded
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.shards.frames import spark_schema
from kstore_core.spec import StoreSpec
from kstore_core.types import Time

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kstore_core.spark.read.plan import ReadPlan, Task

__all__ = ["Timestamps", "frame_of", "read_store"]

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
    """Read a version of a partitioned store as a DataFrame with one partition for each shard.

    The store may have any shape. The DataFrame always reads the same version of the store. If
    ``version`` is None, this is the version that is the newest at the time of the call.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the store.
    root : path or address
        The root to which :func:`write_store` has published the store.
    as_of : int or datetime, optional
        For versioned stores, read the versions that were valid at this time. The time is an aware
        datetime, or ms since the epoch. If the time is before the start of a shard's history, the
        read returns a version only if it was valid at the time and is still the latest version of
        its key. ``store.get(key, as_of=…)`` does the same.
    history : bool
        For versioned stores, read all versions. Tombstones are not read.
    from_ts, to_ts : int or datetime, optional
        The bounds of a range of time, both inclusive; no bound if None. A versioned store needs
        ``history``, and returns the versions that were valid at some time in the range. Window and
        session stores return the windows and sessions that overlap the range.
    key : object, optional
        Read only the records of this key, and open only its shard. The key has the type of the
        store's key serde.
    keys : iterable, optional
        Read only the records of these keys.
    prefix : str or bytes, optional
        Read only records whose serialised key begins with this prefix. A str is encoded as UTF-8.
    columns : sequence of str, optional
        Return only these columns, in this order. Other columns are not decoded.
    partitions : sequence of int, optional
        Read only the shards with these numbers.
    headers : bool, optional
        If true, return the column ``headers``; if false, leave it out. If None, return the column
        if the store has headers.
    timestamps : {"timestamp", "millis"}
        The type of the columns of times: Spark timestamps, or long values in ms since the epoch.
    version : int, optional
        The version to read; the newest version if None.
    spec : StoreSpec, optional
        The spec of the store, which is needed only if its serdes are not built in.
    storage_options : mapping, optional
        Options of the object store of ``root``.

    Returns
    -------
    DataFrame
        The first column is ``key``. Window stores then have ``window_start`` and ``window_end``,
        and session stores ``session_start`` and ``session_end``. Window stores that retain
        duplicates have ``sequence``. The next column is ``value``. Depending on the format of the
        store, ``timestamp``, ``valid_to`` and ``headers`` follow; ``valid_to`` is null for a
        version that is still valid. The last column is ``partition``. Keys and values have the
        types of the serdes.

    Raises
    ------
    StateError
        The root has no manifest, or no version ``version``.
    TypeError
        ``version`` is not an int, or ``keys`` is a single key.
    ValueError
        A time is naive, or both ``key`` and ``keys`` are given.
    SpecError
        Options exclude each other; ``from_ts`` is after ``to_ts``; ``spec`` describes another
        store; a serde is unknown and ``spec`` is None; a key has the wrong type; a column is
        unknown or given twice; ``columns`` is empty; or a partition is unknown.
    UnsupportedError
        ``as_of`` or ``history`` is given for a store that is not versioned, or ``from_ts`` or
        ``to_ts`` for a key-value store.
    """
    from kstore_core.spark.read.plan import View, plan_store
    from kstore_core.spark.read.selection import keys_of, prefix_bytes, select

    at, manifest = on_server(spark, loaded, root, storage_options, version)
    spec = manifest_spec(manifest, spec, str(at))
    wanted = keys_of(spec, key, keys)
    selection = select(spec, as_of, history, from_ts, to_ts, wanted, prefix_bytes(prefix))
    view = View(columns, partitions, headers, timestamps)
    return frame_of(spark, plan_store(at, manifest, spec, selection, view))


def frame_of(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """Return the DataFrame of a plan. It has one partition for each part of the plan."""
    count = len(plan.parts)
    numbers = spark.range(0, count, 1, max(count, 1))
    return numbers.mapInArrow(
        told(_Parts(plan.task, plan.parts).read), spark_schema(plan.task.schema)
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """A task with the parts of its plan. Spark calls :meth:`read` by ``mapInArrow``."""

    task: Task
    parts: tuple[Any, ...]

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the parts whose positions in ``parts`` are in the first column of ``batches``."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from self.task.read(self.parts[place])

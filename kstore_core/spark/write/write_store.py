"""write_store: a changelog DataFrame as a new version of a partitioned store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.checks import check_choice
from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_store"]

Mode = Literal["append", "overwrite", "error", "ignore"]
_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def write_store(
    df: DataFrame,
    root: str | os.PathLike[str],
    spec: StoreSpec,
    *,
    partitions: int,
    partition_by: Literal["key", "partition"] | None = None,
    mode: Mode = "append",
    engine: str = "rocksdb",
    partition_time: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Manifest:
    """Restore a partitioned store from a changelog, and publish it as a new version.

    One Spark task builds the state directory of each shard. When all are complete, one manifest
    makes them the newest version. Old versions stay.

    Parameters
    ----------
    df : DataFrame
        The columns of Spark's Kafka source: ``key`` and ``value`` (binary, or of the type of the
        serde), ``timestamp`` (timestamp, or long milliseconds) and ``headers`` if the format keeps
        them; optionally ``topic``, ``partition`` and ``offset``. A null value is a tombstone.
        Records are sorted by offset, and records that a shard contains already are skipped;
        without offsets the order of ``df`` is used. Keys of a window or session store are the keys
        of its changelog, or the user's keys with the columns ``window_start`` (and ``sequence``
        for duplicates), or ``session_start`` and ``session_end``.
    root : path or address
        A directory that every machine of the cluster mounts, or ``s3://bucket/prefix``.
    spec : StoreSpec
        A description from :mod:`kstore_core.stores`.
    partitions : int
        The number of shards.
    partition_by : {"partition", "key"}, optional
        The shard of a record: its column ``partition``, which must equal murmur2 of its key, or
        murmur2 of its key. By default ``"partition"`` if there is such a column.
    mode : {"append", "overwrite", "error", "ignore"}
        If the root has a version: continue it, start an empty one, raise, or do nothing.
    engine : str
        The storage engine of new shards.
    partition_time : bool
        Advance stream time also by the records' header ``partition-time``; see
        :func:`with_partition_time`.
    storage_options : mapping, optional
        Options of an object store, as for ``s3fs.S3FileSystem``; see docs/spark-roots.md.

    Returns
    -------
    Manifest
        The manifest of the published version; for ``"ignore"``, of the newest version.

    Raises
    ------
    SpecError
        The columns do not fit; a record lacks a key or time or is in the wrong shard; the serdes
        cannot read a record; or the root has another store. Nothing was published.
    UnsupportedError
        The engine stores its data in one process, or the root has an unknown scheme.
    StateError
        The root has a version and the mode is ``"error"``, or the root has foreign files.
    CommitConflictError
        Another writer published first; this job published nothing.
    StorageFullError
        The disk of a worker or of the root has no space for a shard.
    StorageUnavailableError
        The object store does not answer, or denies access.
    """
    from kstore_core.spark.shards.frames import check_log, route_log
    from kstore_core.spark.shards.writing import MESSAGE_DDL, read_message

    at = Root.at(root, storage_options)
    check_choice("mode", mode, _MODES)
    check_log(df, spec, partition_time=partition_time)
    by_key = placed_by_key(df.columns, partition_by)
    newest = at.newest()
    if newest is not None and mode == "ignore":
        return newest
    if newest is not None and mode in ("error", "errorifexists"):
        raise StateError(
            f"{at} has version {newest.version} of the store {newest.spec['name']!r}; "
            "pass mode='append' to continue it, or mode='overwrite' to start an empty version"
        )
    job = WriteJob.plan(
        at,
        spec,
        newest,
        engine=engine,
        partitions=partitions,
        mode="overwrite" if mode == "overwrite" else "append",
    )
    log = route_log(df, spec, by_key=by_key, partitions=partitions, partition_time=partition_time)
    writer = job.writer(partition_time=partition_time)
    built = log.mapInArrow(writer.build, MESSAGE_DDL)
    try:
        job.begin()
        written = [read_message(row.message) for row in built.collect()]
        return job.publish(written)
    except BaseException:
        job.discard()
        raise

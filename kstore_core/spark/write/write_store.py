"""The function write_store, which writes a changelog as a new version of a partitioned store."""

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

    For each shard, one Spark task builds a state directory. When all directories are complete, the
    driver publishes one manifest, which makes them the newest version. Old versions stay readable.

    Parameters
    ----------
    df : DataFrame
        The changelog, with the columns of Spark's Kafka source. ``key`` and ``value`` are binary,
        or have the types of the serdes; a null value is a tombstone. ``timestamp`` is a timestamp,
        or a long in ms since the epoch. ``timestamp`` and ``headers`` are required if the format
        of the store has them.

        ``topic``, ``partition`` and ``offset`` are optional. With offsets, records are applied in
        the order of their offsets, and records that a shard already contains are skipped. Without
        offsets, records are applied in the order of ``df``.

        For a window or session store, the keys are those of its changelog, or they are the user's
        keys and further columns contain the times. A window store then needs ``window_start``, and
        ``sequence`` if it retains duplicates. A session store needs ``session_start`` and
        ``session_end``.
    root : path or address
        A directory that every machine of the cluster mounts, or ``s3://bucket/prefix``.
    spec : StoreSpec
        The spec of the store, which a function of :mod:`kstore_core.stores` returns.
    partitions : int
        The number of shards.
    partition_by : {"partition", "key"}, optional
        What selects the shard of a record. ``"key"`` means murmur2 of the key. ``"partition"``
        means the column ``partition``, which must equal murmur2 of the key. If None,
        ``"partition"`` is used if ``df`` has this column, and ``"key"`` otherwise.
    mode : {"append", "overwrite", "error", "ignore"}
        What to do if the root already has a version. ``"append"`` continues the newest version,
        ``"overwrite"`` starts with an empty store, ``"error"`` raises an error, and ``"ignore"``
        writes nothing.
    engine : str
        The name of the storage engine of the shards.
    partition_time : bool
        If true, the header ``partition-time`` of the records advances stream time too; see
        :func:`with_partition_time`.
    storage_options : mapping, optional
        Options of an object store, as for ``s3fs.S3FileSystem``; see docs/spark-roots.md.

    Returns
    -------
    Manifest
        The manifest of the published version. If ``mode`` is ``"ignore"`` and the root has a
        version, the manifest of the newest version.

    Raises
    ------
    SpecError
        A column is missing, unknown or of a wrong type; a record has no key or no time, or is in
        the wrong shard; a serde cannot read a record; or the root contains another store. Nothing
        was published.
    UnsupportedError
        The engine stores its data in one process, or the scheme of the root is not supported.
    StateError
        The root has a version and ``mode`` is ``"error"``, or the root contains files that kstore
        did not write.
    CommitConflictError
        Another writer has published a version first. This job published nothing.
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
            f"{at} already has version {newest.version} of the store {newest.spec['name']!r}; pass "
            "mode='append' to continue this version, or mode='overwrite' to start with an empty "
            "store"
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

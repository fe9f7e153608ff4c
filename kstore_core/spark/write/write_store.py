"""The function write_store, which writes a changelog as a new version of a partitioned store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kstore_core.checks import check_choice
from kstore_core.errors import StateError
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import is_connect, on_server
from kstore_core.spark.runtime.worker_errors import told, typed_errors
from kstore_core.spark.shards.routing import placed_by_key
from kstore_core.spark.write.history import END, log_of_history
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
    spec: StoreSpec | None = None,
    *,
    partitions: int | None = None,
    partition_by: Literal["key", "partition"] | None = None,
    mode: Mode = "append",
    engine: str | None = None,
    partition_time: bool = False,
    run_bytes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Manifest:
    """Build a partitioned store from a changelog, and publish it as a new version of a root.

    One Spark task builds the state directory of each shard that has records in ``df``. When all
    tasks have finished, the driver publishes one manifest, which names the files of the new
    version. Readers can still read the earlier versions.

    Parameters
    ----------
    df : DataFrame
        The changelog, with the columns of Spark's Kafka source. The types of ``key`` and ``value``
        must be binary, the types of the store's serdes, or narrower types of numbers. A null value
        is a tombstone. The type of ``timestamp`` must be timestamp, or long with ms since the
        epoch. ``timestamp`` and ``headers`` are required if the format of the store has timestamps
        or headers.

        ``topic``, ``partition`` and ``offset`` are optional. With offsets, each shard applies
        records in the order of their offsets, and skips the records that it already contains.
        Without offsets, each shard applies records in the order of ``df``.

        For a window or session store, ``key`` must contain the keys of the store's changelog, or
        the user's keys. With the user's keys, further columns must contain the times. A window
        store then needs ``window_start``, and ``sequence`` if the store retains duplicates. A
        session store needs ``session_start`` and ``session_end``.

        For a versioned store, ``df`` may also be a history with the column ``valid_to``, as
        :func:`read_store` returns it. If a version ends before the next version of its key begins,
        the store gets a tombstone. A write of a history first checks the times, so the write reads
        ``df`` twice.
    root : path or address
        The root of the store: a directory that every machine of the cluster mounts at this path, or
        an address in an object store, such as ``s3://bucket/prefix``.
    spec : StoreSpec, optional
        The spec of the store, which a function of :mod:`kstore_core.stores` returns. If None, the
        spec of the root's newest version. A new root requires a spec.
    partitions : int, optional
        The number of shards. If None, the number of the root's newest version. A new root requires
        a number.
    partition_by : {"partition", "key"}, optional
        The choice of a record's shard. ``"key"`` computes the shard from the murmur2 hash of
        the key. ``"partition"`` takes the shard from the column ``partition``, whose numbers must
        be those that ``"key"`` would compute. The default is ``"partition"`` for a DataFrame with
        this column, and ``"key"`` for others.
    mode : {"append", "overwrite", "error", "ignore"}
        The treatment of a root that already has a version. ``"append"`` continues the newest
        version, ``"overwrite"`` starts with an empty store, ``"error"`` raises an error, and
        ``"ignore"`` writes nothing.
    engine : str, optional
        The name of the storage engine of the shards. If None, the engine of the root's newest
        version, or ``"rocksdb"`` for a new root.
    partition_time : bool
        If true, the headers ``partition-time`` of the records also advance the stream time of the
        shards; see :func:`with_partition_time`.
    run_bytes : int, optional
        The greatest size in bytes of a shard's records that a task sorts and restores together, by
        default 128 MiB. A task writes further records to temporary files. A task needs a few times
        ``run_bytes`` of memory.
    storage_options : mapping, optional
        Options of the object store of ``root``, which are those of ``obstore``; see
        docs/spark-roots.md.

    Returns
    -------
    Manifest
        The manifest of the published version. If ``mode`` is ``"ignore"`` and the root already has
        a version, the manifest of the newest version.

    Raises
    ------
    SpecError
        A column is missing, unknown or of a wrong type; a record has no key or no time, or its key
        belongs to another partition; the times of a history contradict each other; a serde cannot
        read a record; the root contains another store; the root has no version and ``spec`` or
        ``partitions`` is None; or ``run_bytes`` is not an int from 1 to 2147483647. Nothing was
        published.
    UnsupportedError
        The engine keeps its data in one process, or the scheme of the root is not supported.
    StateError
        The root has a version and ``mode`` is ``"error"``, or the root contains files that kstore
        did not write.
    CommitConflictError
        Another writer has published a version since this write began. This write published nothing.
    StorageFullError
        The disk of a worker or of the root has no space for a shard.
    StorageUnavailableError
        The object store does not answer, or denies access.
    """
    from kstore_core.spark.shards.frames import check_batch, check_log_columns, route_log
    from kstore_core.spark.shards.spool import check_run_bytes
    from kstore_core.spark.shards.writing import MESSAGE_DDL, read_message

    check_choice("mode", mode, _MODES)
    if run_bytes is not None:
        check_run_bytes(run_bytes)
    check_batch(df)
    spark = df.sparkSession
    job = on_server(
        spark,
        _planned,
        root,
        storage_options,
        spec,
        mode,
        engine=engine,
        partitions=partitions,
    )
    if isinstance(job, Manifest):
        return job
    if job.spec.shape == "versioned" and END in df.columns:
        df = log_of_history(df)
    check_log_columns(df.schema, job.spec, partition_time=partition_time)
    by_key = placed_by_key(df.columns, partition_by)
    log = route_log(
        df, job.spec, by_key=by_key, partitions=job.partitions, partition_time=partition_time
    )
    writer = job.writer(partition_time=partition_time, run_bytes=run_bytes)
    built = log.mapInArrow(told(writer.build), MESSAGE_DDL)
    manifest = None
    try:
        on_server(spark, job.begin)
        with typed_errors():
            manifest = job.manifest(read_message(row.message) for row in built.collect())
        on_server(spark, job.publish_manifest, manifest)
        return manifest
    except BaseException:
        if manifest is None or not is_connect(spark):
            on_server(spark, job.discard)
        # With Spark Connect, the publishing task may still run, so a vacuum must remove the files.
        raise


def _planned(
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    spec: StoreSpec | None,
    mode: Mode,
    *,
    engine: str | None,
    partitions: int | None,
) -> WriteJob | Manifest:
    """Return the job of a write, or the newest manifest if ``mode`` allows no write."""
    at = Root.at(root, storage_options)
    newest = at.newest()
    if newest is not None and mode == "ignore":
        return newest
    if newest is not None and mode in ("error", "errorifexists"):
        raise StateError(
            f"{at} already has version {newest.version} of the store {newest.spec['name']!r}; pass "
            "mode='append' to continue this version, or mode='overwrite' to start with an empty "
            "store"
        )
    return WriteJob.plan(
        at,
        spec,
        newest,
        engine=engine,
        partitions=partitions,
        mode="overwrite" if mode == "overwrite" else "append",
    )

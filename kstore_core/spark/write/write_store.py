"""write_store: a changelog DataFrame restored into a partitioned store, as one new version."""

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

    Every shard is a state directory of its own, built by one Spark task. Nothing is visible before
    all of them are whole; then one manifest makes them the newest version. Old versions stay.

    Parameters
    ----------
    df : DataFrame
        The columns of Spark's Kafka source: ``key`` and ``value`` (binary, or of the type of the
        serde), ``timestamp`` (timestamp, or long milliseconds) and ``headers`` where the format
        keeps them; ``topic``, ``partition`` and ``offset`` where they are known. A null value is a
        tombstone. With offsets, records come in their order, and those that a shard contains
        already are left out; without, they come in the order of ``df``. Of a window store, keys are
        those of its changelog, or the user's with ``window_start`` beside them (and ``sequence``
        where it retains duplicates); of a session store, with ``session_start`` and
        ``session_end``.
    root : path or address
        Where the store is kept: a directory, local or mounted alike on every machine of the
        cluster, or ``s3://bucket/prefix``.
    spec : StoreSpec
        From the factories in :mod:`kstore_core.stores`.
    partitions : int
        The number of shards.
    partition_by : {"partition", "key"}, optional
        Which shard a record goes to: the one of its column ``partition``, which has to be where
        murmur2 puts its key, or the one where murmur2 puts it, wherever it was. The former where
        there is such a column, else the latter.
    mode : {"append", "overwrite", "error", "ignore"}
        What to do where the root holds a version: go on from it, start from nothing, raise, or
        leave it as it is.
    engine : str
        The storage engine of new shards.
    partition_time : bool
        Whether stream time, by which records are too late, follows their header ``partition-time``
        too; see :func:`with_partition_time`.
    storage_options : mapping, optional
        Of an object store, as ``s3fs.S3FileSystem`` takes them; see docs/spark-roots.md.

    Returns
    -------
    Manifest
        Of the version that was published; of the newest one for ``"ignore"``.

    Raises
    ------
    SpecError
        The columns do not fit, a record has no key or time, is in the wrong shard or is not what
        the serdes read, or the root holds another store. Nothing was published.
    UnsupportedError
        The engine keeps its data in one process, or no storage is known for the root.
    StateError
        There is a version and the mode is ``"error"``, or the root holds something else.
    CommitConflictError
        Another writer published meanwhile. Nothing of this job was.
    StorageFullError
        There is no room for a shard on the machine that builds it, or in the root.
    StorageUnavailableError
        The object store does not answer, or denies access.
    """
    from kstore_core.spark.shards.frames import check_log, route_log
    from kstore_core.spark.shards.writing import MESSAGE_DDL, read_message

    home = Root.at(root, storage_options)
    check_choice("mode", mode, _MODES)
    check_log(df, spec, partition_time=partition_time)
    by_key = placed_by_key(df.columns, partition_by)
    newest = home.newest()
    if newest is not None and mode == "ignore":
        return newest
    if newest is not None and mode in ("error", "errorifexists"):
        raise StateError(
            f"{home} holds version {newest.version} of the store {newest.spec['name']!r}; "
            "pass mode='append' to go on from it, or mode='overwrite' to start anew"
        )
    job = WriteJob.plan(
        home,
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

"""The function `rescale`, which changes the number of shards of a partitioned store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.checks import check_partitions
from kstore_core.errors import SpecError
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import on_server
from kstore_core.spark.runtime.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Rescaled", "rescale"]


@dataclass(frozen=True, slots=True)
class Rescaled:
    """The result of a rescale.

    Attributes
    ----------
    store : str
        The name of the store.
    before, partitions : int
        The old and the new number of shards.
    rows : int
        The number of stored rows in the new shards. For a versioned store, a row contains the
        latest version of a key, or the versions of a key in one segment.
    version : int, optional
        The number of the new version, or None for a state of `map_state`.
    path : str
        The root, or the directory of the new shards of a state of `map_state`.
    """

    store: str
    before: int
    partitions: int
    rows: int
    version: int | None
    path: str


def rescale(
    root: str | os.PathLike[str],
    *,
    partitions: int,
    store: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Rescaled:
    """Move the rows of a partitioned store to a new number of shards, in a Spark job.

    Kafka's murmur2 partitioner selects the new shard of each key. The rows keep their bytes, with
    headers, times and history. In window and session stores, expired rows are left out. If a new
    shard gets keys of several old shards, its stream time is the least stream time of these old
    shards, or in a key-value store the greatest.

    For a root of :func:`write_store`, the function publishes a new version. Earlier versions can
    still be read with ``version=``. The new version keeps exact offsets, so a later write skips
    exactly the records that it would have skipped without the rescale.

    For a state of :func:`map_state`, stop the query first. The next run of the query, with the same
    checkpoint, uses the new shards if it leaves out ``partitions`` or passes the new number. If the
    query was stopped within a micro-batch, the next run raises a StateError, whose message says how
    to return to the old shards.

    Parameters
    ----------
    root : path or address
        The root of the store.
    partitions : int
        The new number of shards.
    store : str, optional
        The name of a store of :func:`map_state`, to rescale the state of that store. If None, the
        newest version of the root is rescaled, or the only state of a root without versions.
    storage_options : mapping, optional
        Options of the object store of ``root``, as for :func:`write_store`.
    spark : SparkSession, optional
        The session that runs the job. If None, the active session, or a new :func:`local_session`.

    Returns
    -------
    Rescaled
        The number of rows, and the new version or the new directory.

    Raises
    ------
    SpecError
        ``partitions`` is not an int from 1 to 2147483647, or is the present number of shards. The
        root has several states and ``store`` is None. Or another partitioner than Kafka's murmur2
        wrote a key.
    StateError
        The root has no store. A stream of :func:`stream_into` owns the root. The shards of a state
        have different specs, for instance during an upgrade. Or rows of a window or session store
        on RocksDB would expire, because its shards have very different stream times.
    EngineLockedError
        A task of a query has a shard of the state open.
    CommitConflictError
        Another writer has published a version since the job began. The rescale published nothing.
    CorruptionError
        A shard is damaged.
    StorageFullError
        The disk of a worker or of the root has no space for a shard.
    UnsupportedError
        A state of :func:`map_state` on a disk cannot be rescaled with Spark Connect. The states of
        :func:`with_partition_time` and of :func:`run_on_spark` cannot be rescaled at all.
    """
    from kstore_core.spark.rescale.live import rescale_state
    from kstore_core.spark.rescale.remote import rescale_remote_state
    from kstore_core.spark.rescale.versions import rescale_versions

    check_partitions(partitions)
    session = local_session() if spark is None else spark
    if store is None:
        store = on_server(session, _state_of, root, storage_options)
    if store is None:
        job, older, newer = rescale_versions(session, root, storage_options, partitions)
        rows, name = sum(shard.rows for shard in newer.shards), str(newer.spec["name"])
        return Rescaled(name, older.partitions, partitions, rows, newer.version, job.root.name)
    directory = on_server(session, _directory, root, storage_options)
    if directory is None:
        sharding, place, rows = rescale_remote_state(
            session, root, storage_options, store, partitions
        )
        return Rescaled(store, sharding.partitions, partitions, rows, None, place)
    sharding, folder, rows = rescale_state(session, directory, store, partitions)
    return Rescaled(store, sharding.partitions, partitions, rows, None, str(folder))


def _directory(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> Path | None:
    """Return the directory of a root, or None if the root is on an object store or HDFS."""
    return Root.at(root, storage_options).storage.path


def _state_of(
    root: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> str | None:
    """Return the name of the root's only state of map_state.

    Return None if the root has published versions of a store, or has no state. Raise a SpecError if
    it has several states.
    """
    from kstore_core.spark.rescale.live import states_of

    at = Root.at(root, storage_options)
    if at.versions():
        return None
    names = states_of(at.storage)
    if len(names) > 1:
        raise SpecError(
            f"{at} has several states of map_state: {', '.join(names)}. Pass store= with the name "
            "of one of them"
        )
    return names[0] if names else None

"""The removal of old versions, and of files that no version names."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.commits import unnamed_folders, unneeded
from kstore_core.spark.root.inbox import abandoned
from kstore_core.spark.root.root import ATTEMPTS, MANIFESTS, Root
from kstore_core.spark.root.storage.base import Entry, is_scratch
from kstore_core.spark.runtime.server import on_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Vacuumed", "vacuum"]

WEEK_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The versions and files that a vacuum removed, or would remove without ``dry_run``.

    Attributes
    ----------
    versions : tuple of int
        The numbers of the versions.
    files : tuple of str
        The paths of the files relative to the root. Manifests are not among them.
    bytes : int
        The total size of ``files``.
    """

    versions: tuple[int, ...]
    files: tuple[str, ...]
    bytes: int


def vacuum(
    root: str | os.PathLike[str],
    *,
    grace_s: float = WEEK_S,
    keep_versions: int | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Vacuumed:
    """Remove the files that failed and killed jobs have left in a root.

    With ``keep_versions``, remove old versions too. A vacuum never removes a file that a remaining
    version names. It also keeps every file of a job that has written within the last ``grace_s``
    seconds. So a job that runs at the same time is safe if it takes less than ``grace_s``. The
    incomplete manifest of a writer that was killed is removed after the same time, except on a
    volume of Databricks.

    A vacuum also removes the files that killed tasks of a sink have left in an inbox (the directory
    for the rows of an epoch), if no task has written to this inbox within ``grace_s``. A vacuum
    also removes the files of live shards that the newest commit of their shard does not name, if
    the files are older than ``grace_s``. A query may run at the same time.

    Parameters
    ----------
    root : path or address
        The root of a store.
    grace_s : float
        The grace time in seconds, 0 or more. The files of a job may be removed when this time has
        passed since the job's last write. A version may be removed when this time has passed since
        the next version was published. The age of a file is this machine's clock minus the file's
        time in the storage.
    keep_versions : int, optional
        The number of newest versions to keep, at least 1. If None, all versions are kept.
    dry_run : bool
        If true, return what a vacuum would remove, but remove nothing.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.
    spark : SparkSession, optional
        A session of Spark Connect whose cluster sees the root. A task on the cluster then removes
        the files. With a classic session, or if None, this process removes the files.

    Returns
    -------
    Vacuumed
        The versions and files that were removed.

    Raises
    ------
    ValueError
        ``grace_s`` is not a number or is negative, or ``keep_versions`` is not an int or is less
        than 1.
    StateError
        The manifest of a remaining version cannot be read, so its files are unknown and nothing is
        removed. Or the root has no version and contains files that kstore did not write.
    """
    if isinstance(grace_s, bool) or not isinstance(grace_s, int | float) or not grace_s >= 0:
        raise ValueError(f"grace_s={grace_s!r} must be a number of seconds, 0 or more")
    if keep_versions is not None and (type(keep_versions) is not int or keep_versions < 1):
        raise ValueError(
            f"keep_versions={keep_versions!r} must be an int of 1 or more; pass None to keep all "
            "versions"
        )
    return on_server(spark, _vacuum, root, storage_options, grace_s, keep_versions, dry_run)


def _vacuum(
    root: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    grace_s: float,
    keep_versions: int | None,
    dry_run: bool,
) -> Vacuumed:
    at = Root.at(root, storage_options)
    before_ms = time.time() * 1000 - grace_s * 1000
    # List the attempts before the versions. If a job publishes a version between the two listings,
    # the versions then include this version, so its files are not removed.
    attempts = at.storage.files(ATTEMPTS)
    manifests = at.storage.files(MANIFESTS)
    live = at.storage.files(LIVE)
    versions = at.versions()
    if not versions:
        at.check_unused()  # Another program's directory may also have a directory "attempts".
    expired = _expired(manifests, versions, keep_versions, before_ms)
    staying = [version for version in versions if version not in expired]
    named = {place for version in staying for place in at.load(version).places()}
    gone = _unnamed(at, attempts, named, before_ms)
    gone += [e for e in manifests if is_scratch(e.name) and e.modified_ms < before_ms]
    gone += abandoned(live, before_ms)
    old = [entry for entry in live if entry.modified_ms < before_ms]
    gone += unneeded(at.storage, old)
    if at.storage.path is None:
        abandoned_shards = unnamed_folders(at.storage, live)
        gone += [entry for entry in abandoned_shards if entry in old and entry not in gone]
    if not dry_run:
        # Delete manifests before files, so that no visible version lacks files.
        for version in expired:
            at.storage.delete([f"{MANIFESTS}/{version}.json"])
        at.storage.delete([entry.name for entry in gone])
    return Vacuumed(
        tuple(expired), tuple(entry.name for entry in gone), sum(entry.bytes for entry in gone)
    )


def _expired(
    manifests: list[Entry], versions: list[int], keep_versions: int | None, before_ms: float
) -> list[int]:
    """Return the versions to remove.

    A version is removed if it is older than the newest ``keep_versions`` versions, and if the next
    version was published before ``before_ms``.
    """
    if keep_versions is None:
        return []
    written = {entry.name.rpartition("/")[2]: entry.modified_ms for entry in manifests}
    return [
        version
        for version, following in itertools.pairwise(versions)
        if version in versions[:-keep_versions]
        and written.get(f"{following}.json", before_ms) < before_ms
    ]


def _unnamed(root: Root, attempts: list[Entry], named: set[str], before_ms: float) -> list[Entry]:
    """Return the files that no version names and whose jobs have no recent writes.

    A recent write is a write after ``before_ms``. The marker files of jobs come first in the
    result. On a local root, a file stays if a version names another file of the same task
    directory, because an engine may read this directory in place and have a lock file in it.
    """
    of_job: dict[str, list[Entry]] = defaultdict(list)
    for entry in attempts:
        of_job[_part(entry.name, 2)].append(entry)
    depth = 3 if root.storage.path is not None else None
    staying = {_part(place, depth) for place in named}
    gone = [
        entry
        for entries in of_job.values()
        if max(entry.modified_ms for entry in entries) < before_ms
        for entry in entries
        if _part(entry.name, depth) not in staying
    ]
    return sorted(gone, key=lambda entry: (entry.name.count("/") > 2, entry.name))


def _part(name: str, depth: int | None) -> str:
    return "/".join(name.split("/")[:depth])

"""vacuum: removal of files that no version refers to, and of old versions."""

from __future__ import annotations

import itertools
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.spark.root.root import ATTEMPTS, MANIFESTS, Root
from kstore_core.spark.root.storage.base import Entry

__all__ = ["Vacuumed", "vacuum"]

WEEK_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The versions and files that a vacuum removed, or would remove.

    Attributes
    ----------
    versions : tuple of int
    files : tuple of str
        Files of attempts, relative to the root.
    bytes : int
        The total size of the files.
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
) -> Vacuumed:
    """Remove the leftovers of failed and killed jobs and, with ``keep_versions``, old versions.

    Files that a remaining version refers to are never touched, whichever job wrote them. Neither is
    anything younger than the grace time, so concurrent jobs are safe as long as each takes less
    time than that.

    Parameters
    ----------
    root : path or address
    grace_s : float
        Seconds since the last write of an attempt, and since the successor of a version, that make
        them removable: from the storage's times to this machine's.
    keep_versions : int, optional
        The number of newest versions that stay, at least 1; by default all do.
    dry_run : bool
        Return what would be removed, and remove nothing.
    storage_options : mapping, optional
        Of an object store; see docs/spark-roots.md.

    Returns
    -------
    Vacuumed

    Raises
    ------
    ValueError
        A grace time that is no number or below 0, or ``keep_versions`` below 1.
    StateError
        A remaining manifest cannot be read, so its files are unknown and nothing is removed; or
        there is no version, but foreign files.
    """
    if isinstance(grace_s, bool) or not isinstance(grace_s, int | float) or not grace_s >= 0:
        raise ValueError(f"grace_s={grace_s!r}; it is a number of seconds, not negative")
    if keep_versions is not None and (type(keep_versions) is not int or keep_versions < 1):
        raise ValueError(f"keep_versions={keep_versions!r}; it is an int from 1 on, or None")
    at = Root.at(root, storage_options)
    before_ms = time.time() * 1000 - grace_s * 1000
    # Attempts first: what is published after they were listed refers to none that is old.
    attempts = at.storage.files(ATTEMPTS)
    versions = at.versions()
    if not versions:
        at.check_unused()  # a foreign directory may have attempts of its own
    expired = _expired(at, versions, keep_versions, before_ms)
    staying = [version for version in versions if version not in expired]
    referred = {place for version in staying for place in at.load(version).places()}
    gone = _unreferred(at, attempts, referred, before_ms)
    if not dry_run:
        # Manifests first, the oldest before the others: no version is there without its files.
        for version in expired:
            at.storage.delete([f"{MANIFESTS}/{version}.json"])
        at.storage.delete([entry.name for entry in gone])
    return Vacuumed(
        tuple(expired), tuple(entry.name for entry in gone), sum(entry.bytes for entry in gone)
    )


def _expired(
    root: Root, versions: list[int], keep_versions: int | None, before_ms: float
) -> list[int]:
    """The versions beyond ``keep_versions`` whose successor is older than the grace time."""
    if keep_versions is None:
        return []
    written = {
        entry.name.rpartition("/")[2]: entry.modified_ms for entry in root.storage.files(MANIFESTS)
    }
    return [
        version
        for version, following in itertools.pairwise(versions)
        if version in versions[:-keep_versions]
        and written.get(f"{following}.json", before_ms) < before_ms
    ]


def _unreferred(
    root: Root, attempts: list[Entry], referred: set[str], before_ms: float
) -> list[Entry]:
    """The files that no version refers to, of jobs older than the grace time; marks come first.

    A local root keeps all files beside referred ones: an engine that reads in place has its lock
    there.
    """
    of_job: dict[str, list[Entry]] = defaultdict(list)
    for entry in attempts:
        of_job[_part(entry.name, 2)].append(entry)
    depth = 3 if root.storage.path is not None else None
    kept = {_part(place, depth) for place in referred}
    gone = [
        entry
        for entries in of_job.values()
        if max(entry.modified_ms for entry in entries) < before_ms
        for entry in entries
        if _part(entry.name, depth) not in kept
    ]
    return sorted(gone, key=lambda entry: (entry.name.count("/") > 2, entry.name))


def _part(name: str, depth: int | None) -> str:
    return "/".join(name.split("/")[:depth])

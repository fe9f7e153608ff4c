"""vacuum: removal of files that no version names, and of old versions."""

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
        Paths of files of attempts, relative to the root.
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

    A vacuum never removes a file that a remaining version names, whichever job wrote the file. It
    never removes a file younger than the grace time, so a concurrent job is safe if it takes less
    time.

    Parameters
    ----------
    root : path or address
    grace_s : float
        An attempt may be removed this many seconds after its last write, and a version this many
        seconds after the next version was published. Ages are computed from the times of the
        storage and the clock of this machine.
    keep_versions : int, optional
        The number of newest versions that stay, at least 1; by default all do.
    dry_run : bool
        Report the versions and files to remove, and remove nothing.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.

    Returns
    -------
    Vacuumed

    Raises
    ------
    ValueError
        The grace time is not a number or is negative, or ``keep_versions`` is less than 1.
    StateError
        A remaining manifest cannot be read, so its files are unknown and nothing is removed; or
        the root has foreign files and no version.
    """
    if isinstance(grace_s, bool) or not isinstance(grace_s, int | float) or not grace_s >= 0:
        raise ValueError(f"grace_s={grace_s!r} is not a number of seconds from 0 on")
    if keep_versions is not None and (type(keep_versions) is not int or keep_versions < 1):
        raise ValueError(f"keep_versions={keep_versions!r} is not an int from 1 on, or None")
    at = Root.at(root, storage_options)
    before_ms = time.time() * 1000 - grace_s * 1000
    # Attempts first: a version that is published later names no old attempt of this list.
    attempts = at.storage.files(ATTEMPTS)
    versions = at.versions()
    if not versions:
        at.check_unused()  # a foreign directory may have attempts of its own
    expired = _expired(at, versions, keep_versions, before_ms)
    staying = [version for version in versions if version not in expired]
    named = {place for version in staying for place in at.load(version).places()}
    gone = _unnamed(at, attempts, named, before_ms)
    if not dry_run:
        # Manifests first, the oldest before the others: no version loses its files.
        for version in expired:
            at.storage.delete([f"{MANIFESTS}/{version}.json"])
        at.storage.delete([entry.name for entry in gone])
    return Vacuumed(
        tuple(expired), tuple(entry.name for entry in gone), sum(entry.bytes for entry in gone)
    )


def _expired(
    root: Root, versions: list[int], keep_versions: int | None, before_ms: float
) -> list[int]:
    """Return the versions beyond ``keep_versions`` whose successor is older than the grace time."""
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


def _unnamed(root: Root, attempts: list[Entry], named: set[str], before_ms: float) -> list[Entry]:
    """Return the files that no version names, of jobs older than the grace time; marks come first.

    On a local root, files beside named files stay: an engine that reads in place has its lock
    there.
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

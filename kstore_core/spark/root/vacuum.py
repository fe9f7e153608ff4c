"""vacuum: what no version refers to, and versions that nobody needs any longer, removed."""

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
    """What a vacuum removed, or would remove.

    Attributes
    ----------
    versions : tuple of int
        Versions that cannot be read any longer.
    files : tuple of str
        Files of attempts, relative to the root.
    bytes : int
        What these files took together.
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
    """Remove what failed and killed jobs left behind and, if asked to, old versions.

    What a version that stays refers to is never touched, whichever job wrote it. What is younger
    than the grace time is not either, so jobs that write or read meanwhile are safe as long as each
    takes less than that.

    Parameters
    ----------
    root : path or address
    grace_s : float
        How long an attempt has to have been left alone, and a version to have been followed by
        another one, seconds: from the storage's times to this machine's.
    keep_versions : int, optional
        How many of the newest versions stay, at least 1. Left out, all do.
    dry_run : bool
        Say what would be removed, and remove nothing.
    storage_options : mapping, optional
        Of an object store; see docs/spark-roots.md.

    Returns
    -------
    Vacuumed

    Raises
    ------
    ValueError
        A grace time below 0 or that is no number, or less than one version to keep.
    StateError
        A manifest that stays cannot be read: what it refers to is not known, so nothing is removed.
        Or there is no version, and files of somebody else are.
    """
    if isinstance(grace_s, bool) or not isinstance(grace_s, int | float) or not grace_s >= 0:
        raise ValueError(f"grace_s={grace_s!r}; it is a number of seconds, not negative")
    if keep_versions is not None and (type(keep_versions) is not int or keep_versions < 1):
        raise ValueError(f"keep_versions={keep_versions!r}; it is an int from 1 on, or None")
    home = Root.at(root, storage_options)
    before_ms = time.time() * 1000 - grace_s * 1000
    # Attempts first: what is published after they were listed refers to none that is old.
    attempts = home.storage.files(ATTEMPTS)
    versions = home.versions()
    if not versions:
        home.check_unused()  # a directory of somebody else may have attempts of its own
    expired = _expired(home, versions, keep_versions, before_ms)
    staying = [version for version in versions if version not in expired]
    referred = {place for version in staying for place in home.load(version).places()}
    gone = _unreferred(home, attempts, referred, before_ms)
    if not dry_run:
        # Manifests first, the oldest before the others: no version is there without its files.
        for version in expired:
            home.storage.delete([f"{MANIFESTS}/{version}.json"])
        home.storage.delete([entry.name for entry in gone])
    return Vacuumed(
        tuple(expired),
        tuple(entry.name for entry in gone),
        sum(entry.bytes for entry in gone),
    )


def _expired(
    home: Root, versions: list[int], keep_versions: int | None, before_ms: float
) -> list[int]:
    """The versions that are not among those to keep, and were followed by another long ago."""
    if keep_versions is None:
        return []
    written = {
        entry.name.rpartition("/")[2]: entry.modified_ms for entry in home.storage.files(MANIFESTS)
    }
    return [
        version
        for version, following in itertools.pairwise(versions)
        if version in versions[:-keep_versions]
        and written.get(f"{following}.json", before_ms) < before_ms
    ]


def _unreferred(
    home: Root, attempts: list[Entry], referred: set[str], before_ms: float
) -> list[Entry]:
    """The files that nobody refers to, of jobs that have not written for long; marks come first.

    In a directory of this machine whatever lies beside files that stay does so too: an engine that
    reads them in place keeps its lock there.
    """
    of_job: dict[str, list[Entry]] = defaultdict(list)
    for entry in attempts:
        of_job[_part(entry.name, 2)].append(entry)
    depth = 3 if home.storage.path is not None else None
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

"""The verification of a root, which checks its files and the shards of its newest version."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.errors import KStoreError, StateError, UnsupportedError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.maintenance.verify import Finding, Progress, Verified

    Listener = Callable[[str, Verified], object]

__all__ = ["examine_root", "verify_root"]

_TRIES = 10
_AT_MOST = 100


def verify_root(
    root: str | os.PathLike[str],
    store: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    spec: StoreSpec | None = None,
    engine: str | None = None,
    changelog: str | os.PathLike[str] | None = None,
    compare: bool = False,
    at_most: int = _AT_MOST,
    told: Listener | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Verified:
    """Compare the files of all versions with the manifests, and verify the newest version's shards.

    Nothing is changed. Versions may be published and removed at the same time; that is not a
    finding.

    Parameters
    ----------
    root : path or address
        The root of the store.
    store, spec, changelog, compare, at_most, progress
        The arguments of :func:`kstore_core.maintenance.verify.verify` for each shard.
    storage_options : mapping, optional
        Options of an object store. Its shards are verified in copies on this machine.
    engine : str, optional
        The name of the engine; the engine in the manifest if None.
    told : callable, optional
        A callback for each result. It is called with the name of the root and the findings about
        its files, and then with the directory and the findings of each shard.

    Returns
    -------
    Verified
        All findings. A shard with a file that differs from the manifest is not opened, so it has
        only findings about its files.

    Raises
    ------
    StateError
        The root has no version, or vacuums removed the newest version during each attempt to read
        it.
    CorruptionError
        The directory of the manifests, or the directory of all attempts, is a symbolic link.
    UnsupportedError, SpecError, StorageUnavailableError
        The root cannot be used, as in :func:`kstore_core.spark.write_store`.
    """
    from kstore_core.maintenance.verify import Progress, verify

    at = Root.at(root, storage_options)

    def read(path: Path, manifest: Manifest) -> Verified:
        if changelog is not None and path.name.rpartition("_")[0] != "0":
            raise UnsupportedError(
                f"shards of {at} are verified in copies, whose names do not contain the partition "
                "of the changelog. Verify the root without the changelog, or verify a root that "
                "was written on a local disk"
            )
        return verify(
            path,
            store,
            spec=spec,
            engine=engine or manifest.engine,
            changelog=changelog,
            compare=compare,
            at_most=at_most,
            progress=progress,
        )

    def hashed(done: int, files: int) -> None:
        if progress is not None:
            progress(Progress("files", done, files, 0, 0))

    return _check(at, read, told, contents=True, at_most=at_most, progress=hashed)


def examine_root(
    root: str | os.PathLike[str],
    *,
    engine: str | None = None,
    changelog: str | os.PathLike[str] | None = None,
    told: Listener | None = None,
) -> Verified:
    """Examine a local root and the shards of its newest version quickly. Nothing is changed.

    The function compares only the sizes of files, and reads no rows. The arguments and errors are
    those of :func:`verify_root`, but ``changelog`` is the argument of
    :func:`kstore_core.maintenance.doctor.examine`.
    """
    from kstore_core.maintenance.doctor import examine

    def look(path: Path, manifest: Manifest) -> Verified:
        return examine(path, engine=engine or manifest.engine, changelog=changelog)

    return _check(Root.at(root), look, told, contents=False, at_most=_AT_MOST)


def _check(
    root: Root,
    look: Callable[[Path, Manifest], Verified],
    told: Listener | None,
    *,
    contents: bool,
    at_most: int,
    progress: Callable[[int, int], object] | None = None,
) -> Verified:
    """Check the files, and call ``look`` for each shard of the newest version.

    Try again if a vacuum removes that version during the check.
    """
    from kstore_core.maintenance.verify import Counts, Verified
    from kstore_core.spark.verify.files import check_files

    for _ in range(_TRIES):
        files = check_files(root, contents=contents, at_most=at_most, progress=progress)
        found = Verified(list(files.findings), Counts(files=files.files))
        if told is not None:
            told(root.name, Verified(files.findings, Counts(files=files.files)))
        if files.newest is None:
            return found
        for shard in files.newest.shards:
            if shard.path is None or shard.shard in files.damaged:
                continue
            if not contents and not (shard.in_one_place and root.storage.path is not None):
                continue  # The files of the shard are not in one local directory.
            seen = _seen(root, files.newest, shard, look)
            if seen is None:
                break
            path, verified = seen
            found.findings += verified.findings
            found.counts.add(verified.counts)
            if told is not None:
                told(path, verified)
        else:
            return found
    raise StateError(
        f"{root} could not be verified: {_TRIES} times, a job wrote a newer version, and a vacuum "
        "removed the version that was being read. Verify the root again while fewer versions are "
        "written, or pass a greater grace_s to vacuum"
    )


def _seen(
    root: Root, manifest: Manifest, shard: Shard, look: Callable[[Path, Manifest], Verified]
) -> tuple[str, Verified] | None:
    """Return the directory and the findings of a shard, or None if a vacuum removed the version."""
    try:
        with root.local_shard(shard) as path:
            found = look(path, manifest)
    except (KStoreError, OSError):
        if manifest.version not in root.versions():
            return None
        raise
    if found.findings and manifest.version not in root.versions():
        return None
    found.findings = [_of_shard(finding, shard.shard) for finding in found.findings]
    return str(path), found


def _of_shard(finding: Finding, shard: int) -> Finding:
    """Add the number of the shard to a finding, and replace a remedy that would change the shard.

    A published version never changes, so its damage cannot be repaired in place.
    """
    remedy = finding.remedy
    if finding.severity == "corrupt" or finding.what == "two formats":
        remedy = (
            "read another version with version=, or write the store again with mode='overwrite'"
        )
    return replace(finding, place=replace(finding.place, shard=shard), remedy=remedy)

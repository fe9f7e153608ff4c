"""Functions that verify the files of a root and the shards of its newest version."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.errors import KStoreError, StateError, UnsupportedError
from kstore_core.spark.root.manifest import Manifest, Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.runtime.server import is_connect, on_server
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    listener: Listener | None = None,
    progress: Callable[[Progress], object] | None = None,
    spark: SparkSession | None = None,
) -> Verified:
    """Compare the files of all versions with the manifests, and verify the newest version's shards.

    The function changes nothing in the root. Jobs may publish versions and vacuums may remove
    versions at the same time; this causes no findings.

    Parameters
    ----------
    root : path or address
        The root of the store.
    store, spec, changelog, compare, at_most, progress
        The arguments of :func:`kstore_core.maintenance.verify.verify`, which verifies each shard.
    storage_options : mapping, optional
        Options of an object store. The function copies the shards of a root on an object store to
        this machine, and verifies the copies.
    engine : str, optional
        The name of the engine of the shards. Default: the engine that the manifest names.
    listener : callable, optional
        A callback. The function calls it first with the name of the root and the findings about
        the root's files, and then with the directory and the findings of each shard.
    spark : SparkSession, optional
        A session of Spark Connect. A task on its cluster then verifies the root. Without a session,
        and with a classic session, this process verifies the root.

    Returns
    -------
    Verified
        All findings. If a file of a shard differs from the manifest, the shard is not opened, and
        the result contains only findings about the shard's files.

    Raises
    ------
    StateError
        The root has no version. Or in each of several attempts, a vacuum removed the newest version
        before all its shards were verified.
    CorruptionError
        The directory ``_kstore`` or the directory ``attempts`` of the root is a symbolic link.
    UnsupportedError, SpecError, StorageUnavailableError
        The root cannot be used, as in :func:`kstore_core.spark.write_store`. An UnsupportedError is
        also raised if ``listener`` or ``progress`` is given with a session of Spark Connect.
    """
    if is_connect(spark) and (listener is not None or progress is not None):
        raise UnsupportedError(
            "verify_root cannot call listener or progress with a session of Spark Connect, because "
            "a task on the cluster verifies the root. Leave out listener and progress, and read "
            "the findings of the result"
        )
    return on_server(
        spark,
        _verified,
        root,
        store,
        storage_options,
        spec,
        engine,
        changelog,
        compare,
        at_most,
        listener,
        progress,
    )


def _verified(
    root: str | os.PathLike[str],
    store: str | None,
    storage_options: Mapping[str, Any] | None,
    spec: StoreSpec | None,
    engine: str | None,
    changelog: str | os.PathLike[str] | None,
    compare: bool,
    at_most: int,
    listener: Listener | None,
    progress: Callable[[Progress], object] | None,
) -> Verified:
    from kstore_core.maintenance.verify import Progress, verify

    at = Root.at(root, storage_options)

    def read(path: Path, manifest: Manifest) -> Verified:
        if changelog is not None and path.name.rpartition("_")[0] != "0":
            raise UnsupportedError(
                f"a shard of {at} cannot be compared with the changelog, because the shard is "
                "verified in a copy, whose name does not contain the partition. Verify the root "
                "without the changelog, or verify a root that was written on a local disk"
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

    return _check(at, read, listener, contents=True, at_most=at_most, progress=hashed)


def examine_root(
    root: str | os.PathLike[str],
    *,
    engine: str | None = None,
    changelog: str | os.PathLike[str] | None = None,
    listener: Listener | None = None,
) -> Verified:
    """Examine a root and the local shards of its newest version, without reading rows.

    The function compares the sizes of the root's files with the manifests, but does not read their
    contents, and changes nothing. It calls :func:`kstore_core.maintenance.doctor.examine` with
    ``changelog`` for each shard in a local directory. The other arguments and the errors are those
    of :func:`verify_root`.
    """
    from kstore_core.maintenance.doctor import examine

    def look(path: Path, manifest: Manifest) -> Verified:
        return examine(path, engine=engine or manifest.engine, changelog=changelog)

    return _check(Root.at(root), look, listener, contents=False, at_most=_AT_MOST)


def _check(
    root: Root,
    look: Callable[[Path, Manifest], Verified],
    listener: Listener | None,
    *,
    contents: bool,
    at_most: int,
    progress: Callable[[int, int], object] | None = None,
) -> Verified:
    """Check the files of a root, and call ``look`` for each shard of its newest version.

    If a vacuum removes this version during the check, check the root again. If ``contents`` is
    false, compare only the sizes of files, and call ``look`` only for shards in a local directory.
    """
    from kstore_core.maintenance.verify import Counts, Verified
    from kstore_core.spark.verify.files import check_files

    for _ in range(_TRIES):
        files = check_files(root, contents=contents, at_most=at_most, progress=progress)
        found = Verified(list(files.findings), Counts(files=files.files))
        if listener is not None:
            listener(root.name, Verified(files.findings, Counts(files=files.files)))
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
            if listener is not None:
                listener(path, verified)
        else:
            return found
    raise StateError(
        f"{root} could not be verified in {_TRIES} attempts, because during each attempt a job "
        "wrote a newer version, and a vacuum removed the version that was being verified. Verify "
        "the root again while fewer versions are written, or pass a greater grace_s to vacuum"
    )


def _seen(
    root: Root, manifest: Manifest, shard: Shard, look: Callable[[Path, Manifest], Verified]
) -> tuple[str, Verified] | None:
    """Call ``look`` for a shard, and return the shard's directory and its findings.

    Return None if a vacuum removed the version.
    """
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

    A published version must never change, so a damaged shard cannot be repaired in place.
    """
    remedy = finding.remedy
    if finding.severity == "corrupt" or finding.what == "two formats":
        remedy = (
            "read another version with version=, or write the store again with mode='overwrite'"
        )
    return replace(finding, place=replace(finding.place, shard=shard), remedy=remedy)

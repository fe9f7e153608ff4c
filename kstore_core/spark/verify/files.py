"""Functions that compare the files of a root with the sizes and hashes in its manifests.

Published files never change. Only a vacuum removes files, and a vacuum removes the manifest of a
version before the files of the version. So if a manifest names a file that is missing, the root is
damaged.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from kstore_core.errors import (
    CorruptionError,
    InconsistentStateError,
    StateError,
    StorageUnavailableError,
)
from kstore_core.maintenance.verify import Finding, Place, Severity
from kstore_core.maintenance.verify.findings import Findings
from kstore_core.spark.root.manifest import File, Manifest
from kstore_core.spark.root.root import ATTEMPTS, MANIFESTS, Root
from kstore_core.spark.root.storage.base import Entry
from kstore_core.spark.verify.unnamed import unnamed

__all__ = ["CheckedFiles", "check_files"]

_AT_ONCE = 4
_READS = 3
_BETWEEN_READS_S = 0.2
"""The pause in seconds between two reads of a manifest that cannot be parsed.

On a file system without hard links, a manifest is written in place. A read during the write may
return an incomplete manifest, and a later read returns the complete manifest.
"""

_RESTORE = (
    "restore the file from a copy of the root, read another version with version=, or write the "
    "store again with mode='overwrite'"
)
_FORBIDDEN = (
    "verify as a user with permission to read the file, or permit this user to read it with chown "
    "or chmod"
)


@dataclass(slots=True)
class CheckedFiles:
    """The result of a check of files.

    Attributes
    ----------
    newest : Manifest, optional
        The newest manifest that can be read, or None if no manifest can be read.
    findings : list of Finding
        The findings about files and manifests.
    damaged : set of int
        The numbers of the shards that must not be opened. A file of such a shard cannot be read or
        differs from the manifest of version ``newest``, or a symbolic link is in the directory of
        its files.
    files : int
        The number of different files that the manifests name.
    """

    newest: Manifest | None = None
    findings: list[Finding] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    files: int = 0


class _Use(NamedTuple):
    """The entry of a file in the manifest of a version."""

    version: int
    shard: int
    file: File


class _Fault(NamedTuple):
    severity: Severity
    what: str
    why: str


def check_files(
    root: Root,
    *,
    contents: bool = True,
    at_most: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> CheckedFiles:
    """Compare each file with all manifests that name the file, but change nothing.

    If ``contents`` is true, read each file once and compare its size and its SHA-256. If
    ``contents`` is false, compare only the sizes. ``at_most`` is the greatest number of findings of
    each kind for each shard; there is no limit if ``at_most`` is 0. ``progress`` is called after
    each file with the number of files that were compared, and with the number of all files. The
    errors are those of :func:`~kstore_core.spark.verify_root`.
    """
    checked = CheckedFiles()
    findings = Findings(checked.findings.append, at_most)
    # List the attempts before the manifests. A listed file that no manifest names then belongs to
    # no version, because all files of a version are older than its manifest.
    listed = root.storage.files(ATTEMPTS)
    manifests, unread = _manifests(root)
    for version, fault in unread.items():
        findings.add(_of_manifest(root, version, fault))
    if manifests:
        checked.newest = manifests[max(manifests)]
    uses = _uses(manifests.values())
    entries = {entry.name: entry for entry in listed}
    faults = dict(_faults(root, uses, entries, checked, contents=contents, progress=progress))
    there = {*root.versions()} if faults else set()
    for place, fault in sorted(faults.items()):
        # Ignore the versions that a vacuum has removed since the manifests were read.
        current = [use for use in uses[place] if use.version in there]
        if current:
            findings.add(_of_file(checked, place, current, fault, manifests))
    for finding in unnamed(root, listed, manifests, sure=not unread):
        findings.add(finding)
        if finding.severity == "corrupt" and finding.place.shard is not None:
            checked.damaged.add(finding.place.shard)
    findings.end()
    return checked


def _manifests(root: Root) -> tuple[dict[int, Manifest], dict[int, _Fault]]:
    """Return the manifests that can be read, and the faults of the other manifests.

    The keys of both dicts are the versions.
    """
    versions = root.versions()
    if not versions:
        root.load()  # This call raises the error that the root has no version.
    found: dict[int, Manifest] = {}
    unread: dict[int, _Fault] = {}
    for version in versions:
        try:
            found[version] = _read(root, version)
        except (InconsistentStateError, CorruptionError) as error:
            unread[version] = _Fault("corrupt", "manifest", str(error))
        except StorageUnavailableError as error:
            unread[version] = _unavailable(root, error)
        except StateError as error:  # A newer kstore wrote the manifest, or a vacuum removed it.
            unread[version] = _Fault("finding", "manifest", str(error))
    if unread:
        there = {*root.versions()}
        unread = {version: fault for version, fault in unread.items() if version in there}
    return found, unread


def _read(root: Root, version: int) -> Manifest:
    for _ in range(_READS - 1):
        try:
            return root.load(version)
        except InconsistentStateError:
            time.sleep(_BETWEEN_READS_S)
    return root.load(version)


def _of_manifest(root: Root, version: int, fault: _Fault) -> Finding:
    why = fault.why
    if fault.what != "manifest":
        why = f"{root}/{MANIFESTS}/{version}.json {why}"
    remedies = {
        "corrupt": f"restore {MANIFESTS}/{version}.json from a copy of the root, or read another "
        "version with version=",
        "finding": _FORBIDDEN
        if fault.what == "forbidden"
        else "verify the root with a newer kstore",
    }
    return Finding(fault.severity, fault.what, why, Place(""), remedies[fault.severity])


def _uses(manifests: Iterable[Manifest]) -> dict[str, list[_Use]]:
    """Return, for the path of each file, all entries in the manifests that describe the file."""
    uses: dict[str, list[_Use]] = defaultdict(list)
    for manifest in manifests:
        for shard in manifest.shards:
            for file in shard.files:
                uses[shard.place_of(file)].append(_Use(manifest.version, shard.shard, file))
    return uses


def _faults(
    root: Root,
    uses: Mapping[str, list[_Use]],
    entries: Mapping[str, Entry],
    checked: CheckedFiles,
    *,
    contents: bool,
    progress: Callable[[int, int], object] | None,
) -> Iterator[tuple[str, _Fault]]:
    """Yield the path and the fault of each file that differs from a manifest.

    If a file has several names because of hard links, the file is read only once.
    """
    names_of: dict[object, list[str]] = defaultdict(list)
    for place in uses:
        entry = entries.get(place)
        one_file = place if entry is None or entry.is_link else entry.inode or place
        names_of[one_file].append(place)
    checked.files = len(uses)
    meant = {(used[0].file.bytes, used[0].file.sha256): place for place, used in uses.items()}

    def look(place: str) -> tuple[int, str | None] | _Fault:
        try:
            return root.storage.digest(place) if contents else (root.storage.size(place), None)
        except FileNotFoundError:
            return _Fault("corrupt", "file", "is missing")
        except NotADirectoryError:
            return _Fault("corrupt", "file", "is missing, because its directory is a file")
        except (CorruptionError, InconsistentStateError) as error:
            return _Fault("corrupt", "file", f"cannot be used: {error}")
        except StorageUnavailableError as error:
            return _unavailable(root, error)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = pool.map(look, [names[0] for names in names_of.values()])
        for done, (names, found) in enumerate(zip(names_of.values(), looked, strict=True), 1):
            for place in names:
                fault = found if isinstance(found, _Fault) else _compared(uses[place], *found)
                if fault is not None:
                    if not isinstance(found, _Fault) and found in meant:
                        other = f"{fault.why}. The file has the content of {meant[found]}"
                        fault = fault._replace(why=other)
                    yield place, fault
            if progress is not None:
                progress(done, len(names_of))


def _compared(uses: list[_Use], size: int, sha256: str | None) -> _Fault | None:
    for use in uses:
        if size != use.file.bytes:
            why = f"has {size} bytes, not {use.file.bytes} as in its manifest"
            return _Fault("corrupt", "file", why)
        if sha256 not in (None, use.file.sha256):
            why = f"has the SHA-256 {sha256}, not {use.file.sha256} as in its manifest"
            return _Fault("corrupt", "file", why)
    return None


def _unavailable(root: Root, error: StorageUnavailableError) -> _Fault:
    """Return the fault of a local file whose read raised ``error``.

    If the root is on an object store, raise ``error``, because the object store does not answer.
    """
    if root.storage.path is None:
        raise error
    if isinstance(error.__cause__, PermissionError):
        return _Fault("finding", "forbidden", f"cannot be read: {error}")
    return _Fault("corrupt", "unreadable", f"cannot be read: {error}")


def _of_file(
    checked: CheckedFiles,
    place: str,
    uses: list[_Use],
    fault: _Fault,
    manifests: Mapping[int, Manifest],
) -> Finding:
    assert checked.newest is not None
    newest = checked.newest.version
    versions = sorted({use.version for use in uses})
    shard = uses[-1].shard
    if newest in versions:
        checked.damaged |= {use.shard for use in uses if use.version == newest}
    numbers = ", ".join(map(str, versions))
    why = f"{place}, of version{'s' * (len(versions) > 1)} {numbers}, {fault.why}"
    remedy = _FORBIDDEN if fault.what == "forbidden" else _RESTORE
    if fault.severity == "corrupt" and newest not in versions:
        remedy = (
            "the newest version does not need this file; restore the file from a copy of the root, "
            "or remove old versions with kstore_core.spark.vacuum(root, keep_versions=…)"
        )
    store = str(manifests[versions[-1]].spec["name"])
    return Finding(fault.severity, fault.what, why, Place(store, shard=shard), remedy)

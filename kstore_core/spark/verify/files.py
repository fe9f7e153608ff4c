"""The check of a root's files against the sizes and hashes in its manifests.

Published files never change. Only a vacuum removes files, and it removes the manifests first. So a
missing file is a fault if a manifest names it.
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
"""Without hard links a manifest is written in place: a later read returns all of it."""

_RESTORE = (
    "restore it from a copy of the root, read another version with version=, or write the store "
    "again with mode='overwrite'"
)
_FORBIDDEN = "read it as a user with permission, or chown or chmod it"


@dataclass(slots=True)
class CheckedFiles:
    """The result of a check of files."""

    newest: Manifest | None = None  # that can be read
    findings: list[Finding] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)
    """Shards of the newest version with a file that is unreadable or differs from the manifest."""
    files: int = 0  # that the manifests name


class _Use(NamedTuple):
    """A file as a version names it."""

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
    """Compare every file with every manifest that names it; nothing is changed.

    ``contents`` compares SHA-256s, with one read of each file; else only sizes. ``at_most`` limits
    the findings of a kind for each shard; 0 is all. ``progress`` is called with the number of files
    read so far and the number of all files. The errors are those of
    :func:`~kstore_core.spark.verify_root`.
    """
    checked = CheckedFiles()
    findings = Findings(checked.findings.append, at_most)
    # Attempts first: a file older than the manifests is in one of them, or is a leftover.
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
        current = [use for use in uses[place] if use.version in there]  # not removed by a vacuum
        if current:
            findings.add(_of_file(checked, place, current, fault, manifests))
    for finding in unnamed(root, listed, manifests, sure=not unread):
        findings.add(finding)
        if finding.severity == "corrupt" and finding.place.shard is not None:
            checked.damaged.add(finding.place.shard)
    findings.end()
    return checked


def _manifests(root: Root) -> tuple[dict[int, Manifest], dict[int, _Fault]]:
    """Return the manifests that can be read, and the faults of the others."""
    versions = root.versions()
    if not versions:
        root.load()  # raises, and names what is missing
    found: dict[int, Manifest] = {}
    unread: dict[int, _Fault] = {}
    for version in versions:
        try:
            found[version] = _read(root, version)
        except (InconsistentStateError, CorruptionError) as error:
            unread[version] = _Fault("corrupt", "manifest", str(error))
        except StorageUnavailableError as error:
            unread[version] = _unavailable(root, error)
        except StateError as error:  # written by a newer kstore, or removed since
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
        "finding": _FORBIDDEN if fault.what == "forbidden" else "read it with a newer kstore",
    }
    return Finding(fault.severity, fault.what, why, Place(""), remedies[fault.severity])


def _uses(manifests: Iterable[Manifest]) -> dict[str, list[_Use]]:
    """Return the versions that name each place."""
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
    """Yield the files that differ from the manifests; each file is read once."""
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
            return _Fault("corrupt", "file", "is missing: its directory is a file")
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
                        other = f"{fault.why}. It has the content of {meant[found]}"
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
    """Return the fault of an unreadable local file; an object store's error is raised again."""
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
            "the newest version does not need it: restore it from a copy of the root, or remove "
            "old versions with kstore_core.spark.vacuum(root, keep_versions=…)"
        )
    store = str(manifests[versions[-1]].spec["name"])
    return Finding(fault.severity, fault.what, why, Place(store, shard=shard), remedy)

"""Files in a root that no manifest names: leftovers of jobs, and foreign files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kstore_core.maintenance.verify import Finding, Place, Severity
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import ATTEMPTS, MANIFESTS, Root
from kstore_core.spark.root.shard_files import is_data
from kstore_core.spark.root.storage.base import Entry

__all__ = ["unnamed"]


def unnamed(
    root: Root, listed: Sequence[Entry], manifests: Mapping[int, Manifest], *, sure: bool
) -> Iterator[Finding]:
    """Find the files of no version.

    ``listed`` are the files of all attempts before the read of the manifests. ``sure`` is True if
    all manifests could be read.
    """
    named = {place for manifest in manifests.values() for place in manifest.places()}
    yield from _around(root, named)
    if not sure:
        yield _note("the files of no version are unknown: a manifest cannot be read")
        return
    loose = [entry for entry in listed if entry.name not in named]
    if not loose:
        return
    there = {entry.name for entry in root.storage.files(ATTEMPTS)}  # a vacuum may be running
    owners = _owners(manifests)
    of_job: dict[str, list[Entry]] = defaultdict(list)
    for entry in loose:
        if entry.name not in there:
            continue
        # A vacuum removes single objects of an attempt that a version needs, but no single files.
        owner = owners.get(_attempt(entry.name)) if root.storage.path is not None else None
        if owner is None:
            of_job["/".join(entry.name.split("/")[:2])].append(entry)
        elif entry.is_link:
            yield _beside("corrupt", f"{entry.name} is a symbolic link", *owner)
        elif is_data(entry.name.rpartition("/")[2]):
            yield _beside("finding", f"{entry.name} is named by no manifest", *owner)
    for job, left in sorted(of_job.items()):
        size = sum(entry.bytes for entry in left)
        yield _note(
            f"{root}/{job} has {len(left)} files of no version, {size} bytes: a job that is "
            "running or has failed wrote them, and kstore_core.spark.vacuum removes them after its "
            "grace time"
        )


def _around(root: Root, named: set[str]) -> Iterator[Finding]:
    """Entries that are neither manifests nor attempts."""
    manifests = {f"{version}.json" for version in root.versions()}
    for name in root.storage.names(MANIFESTS):
        if name not in manifests:
            yield _note(f"{root}/{MANIFESTS}/{name} is not a manifest, and is not read")
    known = {MANIFESTS, ATTEMPTS, LIVE, *(place.partition("/")[0] for place in named)}
    for name in root.storage.names(""):
        if name not in known:
            yield _note(f"{root}/{name} belongs to no version, and is not read")


def _owners(manifests: Mapping[int, Manifest]) -> dict[str, tuple[str, int]]:
    """Return the attempts that have files of a version, with their stores and shards."""
    return {
        _attempt(shard.place_of(file)): (str(manifest.spec["name"]), shard.shard)
        for manifest in manifests.values()
        for shard in manifest.shards
        for file in shard.files
    }


def _attempt(name: str) -> str:
    return "/".join(name.split("/")[:3])


def _beside(severity: Severity, why: str, store: str, shard: int) -> Finding:
    return Finding(
        severity,
        "unknown file",
        f"{why}; it is beside files of a version, where an engine may read it",
        Place(store, shard=shard),
        "move it out of the root, and verify again",
    )


def _note(why: str) -> Finding:
    return Finding("note", "note", why, Place(""), "")

"""Functions that find the files of a root that no manifest names.

Such a file was written by a running or failed job, or does not belong to kstore.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kstore_core.maintenance.verify import Finding, Place, Severity
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.root import ATTEMPTS, MANIFESTS, Root
from kstore_core.spark.root.shard_files import is_data
from kstore_core.spark.root.storage.base import Entry, is_scratch

__all__ = ["unnamed"]


def unnamed(
    root: Root, listed: Sequence[Entry], manifests: Mapping[int, Manifest], *, sure: bool
) -> Iterator[Finding]:
    """Yield findings about the files that belong to no version.

    ``listed`` contains the files in the directory ``attempts``. The caller must list these files
    before it reads the manifests. ``sure`` must be False if a manifest could not be read.
    """
    named = {place for manifest in manifests.values() for place in manifest.places()}
    yield from _around(root, named)
    if not sure:
        yield _note(
            "the files that belong to no version are not known, because a manifest cannot be read"
        )
        return
    loose = [entry for entry in listed if entry.name not in named]
    if not loose:
        return
    # A vacuum may be running, so list the files again, and ignore the files that it removed.
    there = {entry.name for entry in root.storage.files(ATTEMPTS)}
    owners = _owners(manifests)
    of_job: dict[str, list[Entry]] = defaultdict(list)
    for entry in loose:
        if entry.name not in there:
            continue
        # If a version needs files of an attempt, a vacuum removes the other objects of the attempt
        # on an object store. On a local root a vacuum does not remove the other files of such an
        # attempt, so each of these files is a finding.
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
            f"{root}/{job} has {len(left)} files that belong to no version, {size} bytes in total. "
            "A job that is running or has failed wrote these files; kstore_core.spark.vacuum "
            "removes them after its grace time"
        )


def _around(root: Root, named: set[str]) -> Iterator[Finding]:
    """Yield findings about the entries of a root that kstore does not read."""
    manifests = {f"{version}.json" for version in root.versions()}
    for name in root.storage.names(MANIFESTS):
        if is_scratch(name):
            yield _note(
                f"{root}/{MANIFESTS}/{name} is the incomplete manifest of a writer that is running "
                "or was killed; kstore_core.spark.vacuum removes it after its grace time"
            )
        elif name not in manifests:
            yield _note(f"{root}/{MANIFESTS}/{name} is not a manifest; kstore does not read it")
    known = {MANIFESTS, ATTEMPTS, LIVE, *(place.partition("/")[0] for place in named)}
    for name in root.storage.names(""):
        if name not in known:
            yield _note(f"{root}/{name} belongs to no version; kstore does not read it")


def _owners(manifests: Mapping[int, Manifest]) -> dict[str, tuple[str, int]]:
    """Return the store and the shard of each attempt that has files of a version.

    The keys of the result are the paths of the attempts.
    """
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
        f"{why}, but its directory has files of a version, so an engine may read this file",
        Place(store, shard=shard),
        "move the file out of the root, and verify again",
    )


def _note(why: str) -> Finding:
    return Finding("note", "note", why, Place(""), "")

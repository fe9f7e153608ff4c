"""A store's root: its versions and attempts, and the atomic publishing of a version.

::

    <root>/_kstore/<version>.json               a manifest; the greatest version is the newest
    <root>/attempts/<job>/begun                 exists while tasks of the job may upload
    <root>/attempts/<job>/<shard>-<attempt>/    the upload of one task of the job

Published files never change. A version appears with its manifest.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.errors import (
    CommitConflictError,
    InconsistentStateError,
    KStoreError,
    StateError,
    UnsupportedError,
)
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.manifest import File, Manifest, Shard
from kstore_core.spark.root.shard_files import Stamps, fetch_files, shard_in_place, upload_files
from kstore_core.spark.root.storage.addresses import storage_at
from kstore_core.spark.root.storage.base import Storage
from kstore_core.spark.runtime.engines import this_worker

__all__ = ["ATTEMPTS", "MANIFESTS", "Root"]

MANIFESTS = "_kstore"
ATTEMPTS = "attempts"
_BEGUN = "begun"
_NAME = re.compile(r"([1-9][0-9]{0,18})\.json")


@dataclass(frozen=True, slots=True)
class Root:
    """The versions of one partitioned store. Workers receive a pickled copy."""

    storage: Storage

    @classmethod
    def at(
        cls, where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> Root:
        """Return the root at a path or an address, with the errors of :func:`storage_at`."""
        return cls(storage_at(where, storage_options))

    def __str__(self) -> str:
        return self.storage.name

    @property
    def name(self) -> str:
        """The root's path or address, for messages."""
        return self.storage.name

    @property
    def path(self) -> Path:
        """The root's directory; an UnsupportedError on an object store."""
        if self.storage.path is None:
            raise UnsupportedError(
                f"{self} is on an object store, and this operation needs a local directory; copy "
                "the store to a local disk first"
            )
        return self.storage.path

    def versions(self) -> list[int]:
        """Return the published versions, ascending; a StateError if the root is a file."""
        names = self.storage.names(MANIFESTS)
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def newest(self) -> Manifest | None:
        """Return the manifest of the newest version; None if there is no version."""
        versions = self.versions()
        return self._read(versions[-1]) if versions else None

    def load(self, version: int | None = None) -> Manifest:
        """Return the manifest of a version, or of the newest.

        A StateError if there is no such version, or its layout is newer; an InconsistentStateError
        if it is damaged; a TypeError if the version is not an int.
        """
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise TypeError(
                f"version={version!r} is {type(version).__name__}, not int; pass 1, 2, …, or None "
                "for the newest version"
            )
        versions = self.versions()
        if not versions:
            raise StateError(
                f"{self} has no store: there is no manifest in {self}/{MANIFESTS}. "
                "Write a store with kstore_core.spark.write_store"
            )
        if version is None:
            version = versions[-1]
        if version not in versions:
            raise StateError(
                f"{self} has no version {version}; read one from {versions[0]} to {versions[-1]}"
            )
        return self._read(version)

    def check_unused(self) -> None:
        """Refuse, with a StateError, a directory that has foreign files and no versions."""
        others = sorted({*self.storage.names("")} - {MANIFESTS, ATTEMPTS, LIVE})
        if others:
            raise StateError(
                f"{self} is not empty and has no partitioned store: it contains {others[0]!r}. "
                "Pass an empty directory, or one that does not exist"
            )

    def publish(self, manifest: Manifest) -> None:
        """Make a version visible by writing its manifest.

        A CommitConflictError, with nothing changed, if another writer has published this version or
        a later one.
        """
        name, text = _manifest(manifest.version), manifest.to_json().encode()
        newest = max(self.versions(), default=0)
        if newest > manifest.version:
            raise self._conflict(newest)
        self.storage.settle(self.attempts(manifest.job))
        try:
            self.storage.put_new(name, text)
        except FileExistsError:
            if not self._is(name, text):
                raise self._conflict(manifest.version) from None
        except (OSError, KStoreError):  # the answer was lost; the request may have arrived
            if not self._is(name, text):
                raise

    def _is(self, name: str, text: bytes) -> bool:
        """Return True if a manifest is this job's own."""
        with contextlib.suppress(FileNotFoundError):
            return self.storage.read(name) == text
        return False

    def _conflict(self, version: int) -> CommitConflictError:
        return CommitConflictError(
            f"{self}/{_manifest(version)} was published by another writer in the meantime, so this "
            "job published nothing. Run it again to continue that version"
        )

    def attempts(self, job: str) -> str:
        """Return the directory of a job's uploads, relative to the root."""
        return f"{ATTEMPTS}/{job}"

    def begin(self, job: str) -> None:
        """Mark ``job`` as running: its tasks may upload.

        An UnsupportedError if the storage overwrites files on conditional puts, as old S3 servers
        do: two writers could publish the same version.
        """
        marker = f"{self.attempts(job)}/{_BEGUN}"
        with contextlib.suppress(FileExistsError):  # a request that was sent twice
            self.storage.put_new(marker, b"")
        try:
            self.storage.put_new(marker, b"")
        except FileExistsError:
            return
        self.discard(job)
        raise UnsupportedError(
            f"{self}: the server has overwritten a file on a request that permits a new file only. "
            "It ignores conditional requests (If-None-Match), so two writers could overwrite each "
            "other's versions. Update the server, or use another one"
        )

    def has_begun(self, job: str) -> bool:
        """Return True if a job is marked as running: neither discarded nor finished."""
        try:
            self.storage.size(f"{self.attempts(job)}/{_BEGUN}")
        except FileNotFoundError:
            return False
        return True

    def close(self, job: str) -> None:
        """Remove the mark of a job: its tasks may no longer upload."""
        self.storage.delete([f"{self.attempts(job)}/{_BEGUN}"])

    def discard(self, job: str) -> None:
        """Remove a job's uploads, if any, without raising."""
        for _ in range(3):  # a task that is being cancelled may still add a file
            with contextlib.suppress(OSError, KStoreError):
                self.close(job)
                self.storage.delete_tree(self.attempts(job))

    def keep_only(self, job: str, manifest: Manifest) -> None:
        """Remove a job's mark and the uploads that ``manifest`` does not name."""
        self.close(job)
        uploads = self.attempts(job)
        named = {place.removeprefix(f"{uploads}/").partition("/")[0] for place in manifest.places()}
        for name in self.storage.names(uploads):
            if name not in named:
                self.storage.delete_tree(f"{uploads}/{name}")

    def upload(
        self, source: Path, place: str, parent: Shard | None = None, stamps: Stamps | None = None
    ) -> tuple[File, ...]:
        """Copy a closed directory to ``place``, in a running job, with :func:`upload_files`."""
        job = place.split("/")[1]
        if not self.has_begun(job):
            raise FileNotFoundError(
                f"{self}/{self.attempts(job)} does not exist on {this_worker()}: the job has ended "
                "in the meantime, or the root is another place on this machine than on the driver; "
                "kstore_core.spark.check_cluster(spark, root) finds out"
            )
        return upload_files(self.storage, source, place, parent, stamps)

    def fetch(self, shard: Shard, target: Path) -> Stamps:
        """Copy a published shard to ``target``, and check every byte."""
        return fetch_files(self.storage, shard, target)

    def local_shard(self, shard: Shard) -> AbstractContextManager[Path]:
        """Return a local directory with the files of a published shard, for reading only.

        For a local root it is the shard's directory, after a check of file sizes; else a cached
        copy, after a check of every byte. A CorruptionError if a file is missing, or differs.
        """
        from kstore_core.spark.root.cache import cached_shard

        if shard.in_one_place and self.storage.path is not None:
            return shard_in_place(self.storage, shard)
        return cached_shard(self.storage, shard)

    def _read(self, version: int) -> Manifest:
        name = _manifest(version)
        try:
            text = self.storage.read(name).decode()
        except FileNotFoundError:
            raise StateError(
                f"{self}/{name} was removed in the meantime; a vacuum with keep_versions removes "
                "old versions. Read a newer version"
            ) from None
        except UnicodeDecodeError as error:
            raise InconsistentStateError(f"{self}/{name} is not a manifest ({error})") from error
        return Manifest.from_json(text, f"{self}/{name}", version)


def _manifest(version: int) -> str:
    return f"{MANIFESTS}/{version}.json"

"""The root of a partitioned store, with its versions, its attempts, and atomic publishing.

::

    <root>/_kstore/<version>.json               a manifest; the greatest version is the newest
    <root>/attempts/<job>/begun                 exists while tasks of the job may upload files
    <root>/attempts/<job>/<shard>-<attempt>/    the files that one task of the job uploaded

Published files never change. A version becomes visible when its manifest is written.
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

__all__ = ["ATTEMPTS", "MANIFESTS", "Root", "check_conditions", "loaded"]

MANIFESTS = "_kstore"
ATTEMPTS = "attempts"
_BEGUN = "begun"
_NAME = re.compile(r"([1-9][0-9]{0,18})\.json")


@dataclass(frozen=True, slots=True)
class Root:
    """The root of one partitioned store. The object can be pickled for Spark's workers."""

    storage: Storage

    @classmethod
    def at(
        cls, where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> Root:
        """Return the root at a path or an address.

        The arguments and the errors are those of :func:`storage_at`.
        """
        return cls(storage_at(where, storage_options))

    def __str__(self) -> str:
        return self.storage.name

    @property
    def name(self) -> str:
        """The path or the address of the root, as messages show it."""
        return self.storage.name

    @property
    def path(self) -> Path:
        """The local directory of the root.

        On an object store, HDFS or a volume, reading the property raises an UnsupportedError.
        """
        if self.storage.path is None:
            raise UnsupportedError(
                f"{self} is not a local directory, but this operation needs one; copy the store to "
                "a local disk first"
            )
        return self.storage.path

    def versions(self) -> list[int]:
        """Return the numbers of the published versions in ascending order.

        Raise a StateError if the root is a file.
        """
        names = self.storage.names(MANIFESTS)
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def newest(self) -> Manifest | None:
        """Return the manifest of the newest version, or None if no version is published."""
        versions = self.versions()
        return self._read(versions[-1]) if versions else None

    def load(self, version: int | None = None) -> Manifest:
        """Return the manifest of ``version``, or of the newest version if ``version`` is None.

        Raise a StateError if the version does not exist, or if the layout of its manifest is newer
        than this kstore. Raise an InconsistentStateError if the manifest is damaged, and a
        TypeError if ``version`` is not an int.
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
                f"{self} has no version {version}; read a version from {versions[0]} to "
                f"{versions[-1]}"
            )
        return self._read(version)

    def check_unused(self) -> None:
        """Raise a StateError if the directory contains files that kstore did not write.

        Call this only if the root has no versions.
        """
        others = sorted({*self.storage.names("")} - {MANIFESTS, ATTEMPTS, LIVE})
        if others:
            raise StateError(
                f"{self} is not empty and has no partitioned store: it contains {others[0]!r}. "
                "Pass an empty directory, or a path that does not exist"
            )

    def publish(self, manifest: Manifest) -> None:
        """Make a version visible by writing its manifest.

        If another writer has published this version or a later version, change nothing and raise
        a CommitConflictError.
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
        except (OSError, KStoreError):  # The write may have succeeded.
            if not self._is(name, text):
                raise

    def _is(self, name: str, text: bytes) -> bool:
        """Return True if the file ``name`` exists and contains ``text``."""
        with contextlib.suppress(FileNotFoundError):
            return self.storage.read(name) == text
        return False

    def _conflict(self, version: int) -> CommitConflictError:
        return CommitConflictError(
            f"{self}/{_manifest(version)} was published by another writer while this job ran, so "
            "this job published nothing. Run the job again, so that it continues that version"
        )

    def attempts(self, job: str) -> str:
        """Return the directory of a job's uploads, relative to the root."""
        return f"{ATTEMPTS}/{job}"

    def begin(self, job: str) -> None:
        """Write the marker file of ``job``, so that the job's tasks may upload files.

        Old S3 servers overwrite an existing file although the request permits only a new file. Two
        writers could then publish the same version. Raise an UnsupportedError for such a storage.
        """
        try:
            check_conditions(self.storage, f"{self.attempts(job)}/{_BEGUN}")
        except UnsupportedError:
            self.discard(job)
            raise

    def has_begun(self, job: str) -> bool:
        """Return True if the marker file of a job exists, so its tasks may upload files."""
        try:
            self.storage.size(f"{self.attempts(job)}/{_BEGUN}")
        except FileNotFoundError:
            return False
        return True

    def close(self, job: str) -> None:
        """Remove the marker file of a job, so that its tasks can upload no more files."""
        self.storage.delete([f"{self.attempts(job)}/{_BEGUN}"])

    def discard(self, job: str) -> None:
        """Remove the files that a job uploaded. Errors of the storage are ignored."""
        for _ in range(3):  # A task that Spark is cancelling may still add a file.
            with contextlib.suppress(OSError, KStoreError):
                self.close(job)
                self.storage.delete_tree(self.attempts(job))

    def keep_only(self, job: str, manifest: Manifest) -> None:
        """Remove a job's marker file, and the job's uploads that ``manifest`` does not name."""
        self.close(job)
        uploads = self.attempts(job)
        named = {place.removeprefix(f"{uploads}/").partition("/")[0] for place in manifest.places()}
        for name in self.storage.names(uploads):
            if name not in named:
                self.storage.delete_tree(f"{uploads}/{name}")

    def upload(
        self, source: Path, place: str, parent: Shard | None = None, stamps: Stamps | None = None
    ) -> tuple[File, ...]:
        """Copy a local directory to ``place`` with :func:`upload_files`, and return its files.

        The engine must have closed the directory. ``place`` contains the name of the job. Raise a
        FileNotFoundError if the marker file of the job does not exist.
        """
        job = place.split("/")[1]
        if not self.has_begun(job):
            raise FileNotFoundError(
                f"{self}/{self.attempts(job)} does not exist on {this_worker()}. Either the job "
                "has ended, or the path of the root leads to different directories on this machine "
                "and on the driver. To find the cause, call "
                "kstore_core.spark.check_cluster(spark, root)"
            )
        return upload_files(self.storage, source, place, parent, stamps)

    def fetch(self, shard: Shard, target: Path) -> Stamps:
        """Copy a published shard to the new local directory ``target``, and check every byte."""
        return fetch_files(self.storage, shard, target)

    def local_shard(self, shard: Shard) -> AbstractContextManager[Path]:
        """Return a context manager of a local directory with the files of a published shard.

        The caller must only read the directory. If the root is local and all files are in the
        shard's directory, the result is that directory, and the file sizes are checked. If not, the
        result is a copy in the cache. All bytes of the copy were checked when the copy was made.

        Raise a CorruptionError if a file is missing, or differs from the manifest.
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
                f"{self}/{name} was removed while this process read the store, probably by a "
                "vacuum with keep_versions, which removes old versions. Read a newer version"
            ) from None
        except UnicodeDecodeError as error:
            raise InconsistentStateError(
                f"{self}/{name} is not a valid manifest: it is not UTF-8 ({error}). To read "
                "another version, pass version="
            ) from error
        return Manifest.from_json(text, f"{self}/{name}", version)


def loaded(
    where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, version: int | None
) -> tuple[Root, Manifest]:
    """Return the root at a path or an address, and the manifest of one of its versions.

    The errors are those of :meth:`Root.at` and :meth:`Root.load`.
    """
    root = Root.at(where, storage_options)
    return root, root.load(version)


def check_conditions(storage: Storage, name: str) -> None:
    """Write an empty file twice, and raise an UnsupportedError if the second write succeeds.

    Old S3 servers ignore the condition that a file must be new. ``name`` must be a new name.
    """
    with contextlib.suppress(FileExistsError):  # The client may have sent the request twice.
        storage.put_new(name, b"")
    try:
        storage.put_new(name, b"")
    except FileExistsError:
        return
    raise UnsupportedError(
        f"{storage.name}: the server has overwritten a file on a request that permits a new file "
        "only. The server ignores conditional requests (If-None-Match), so two writers could "
        "overwrite each other's files. Update the server, or use another server"
    )


def _manifest(version: int) -> str:
    return f"{MANIFESTS}/{version}.json"

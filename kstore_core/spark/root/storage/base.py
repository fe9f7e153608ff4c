"""Where the files of a partitioned store lie: what a root asks of a file system or an object store.

Names are relative to the root, with forward slashes. A file is written once, whole, and never
changed; so all that a storage needs beside reading is to put a file that is not there yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from kstore_core.errors import SpecError, UnsupportedError

__all__ = ["Entry", "Storage", "is_relative", "local_path", "storage_at"]

_FILE = re.compile(r"(?is)file:(?://(?:localhost)?(?=/|$))?(?!//)(.*)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that is there.

    Attributes
    ----------
    name : str
    bytes : int
        Its size.
    modified_ms : int
        When it was written, ms since the epoch, by the clock of the storage.
    is_link : bool
        It is a symbolic link, which no root has: it is not followed.
    inode : tuple of int or None
        Equal for the names of one file; None where a file has one name only.
    """

    name: str
    bytes: int
    modified_ms: int
    is_link: bool = False
    inode: tuple[int, int] | None = None


class Storage(Protocol):
    """A tree of files. Implementations are frozen and travel to the workers of a cluster.

    What is not there is a ``FileNotFoundError``, unless something else is said; a full disk is a
    ``StorageFullError``, a service that does not answer a ``StorageUnavailableError``. No name is
    followed through a symbolic link below the root: that is a ``CorruptionError``.
    """

    @property
    def name(self) -> str:
        """What messages call the root of the tree."""

    @property
    def path(self) -> Path | None:
        """The directory that is the root of the tree, where it is one of this machine."""

    def names(self, directory: str) -> list[str]:
        """What a directory holds, by its last parts, sorted; nothing where there is none.

        Raises
        ------
        StateError
            It is a file.
        """

    def files(self, directory: str) -> list[Entry]:
        """Every file at any depth below a directory."""

    def size(self, name: str) -> int:
        """The size of a file, bytes."""

    def read(self, name: str) -> bytes:
        """A file's content.

        Raises
        ------
        InconsistentStateError
            It is a directory, or another thing that is no file.
        """

    def digest(self, name: str) -> tuple[int, str]:
        """The size of a file, and the SHA-256 of its content, hexadecimal; all of it is read.

        Raises
        ------
        InconsistentStateError
            It is a directory, or another thing that is no file.
        """

    def put_new(self, name: str, data: bytes) -> None:
        """Write a file, whole and durable, unless it is there.

        Raises
        ------
        FileExistsError
            It is; nothing was changed.
        """

    def upload(self, files: Mapping[str, Path]) -> None:
        """Copy local files to new names, durably once :meth:`settle` was called."""

    def reuse(self, old: str, new: str) -> str:
        """Let a new name hold what an old one holds, at no cost; which of the two names does."""

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        """Copy files to new local paths; `linked` files are not written to, so may be shared."""

    def settle(self, directory: str) -> None:
        """Make the names below a directory, and that of itself, survive a power cut."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete files. What is not there is no error."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with all that it holds, if it is there."""


def storage_at(
    where: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> Storage:
    """The storage at a local path or an address.

    Raises
    ------
    UnsupportedError
        No storage is known for the scheme.
    SpecError
        ``storage_options`` that the storage does not know.
    ValueError
        An empty path.
    """
    text = os.fspath(where)
    if not text:
        raise ValueError("the root of a store is a path, not an empty string")
    if "\0" in text:
        raise ValueError(f"the root {text!r} has a NUL in it, which no path has")
    scheme = _scheme(text)
    if scheme in ("s3", "s3a"):
        from kstore_core.spark.root.storage.objects import ObjectStore

        return ObjectStore.at(text, storage_options or {})
    path = local_path(text)
    if path is None:
        raise UnsupportedError(_unsupported(text, scheme))
    if storage_options:
        raise SpecError(
            f"storage_options={sorted(storage_options)} for {text!r}, which is a directory of this "
            "machine and has none; they are for s3:// addresses"
        )
    from kstore_core.spark.root.storage.local import LocalFiles

    return LocalFiles(Path(path).absolute())


def is_relative(where: str | os.PathLike[str]) -> bool:
    """Whether a root is a path that means another place in another working directory."""
    path = local_path(os.fspath(where))
    return path is not None and not Path(path).is_absolute()


def local_path(text: str) -> str | None:
    """The path that a text is, or that a ``file:`` address of this machine has; else None.

    ``#`` and ``?`` are parts of it: what is no page has neither a fragment nor a query.
    """
    if not _scheme(text):
        return text
    match = _FILE.fullmatch(text)
    return unquote(match[1]) if match else None


def _scheme(text: str) -> str:
    """The scheme of an address; empty for a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text)
    return match[1].lower() if match else ""


def _unsupported(text: str, scheme: str) -> str:
    known = "a path, file: or s3:"
    if scheme == "file":
        return f"{text!r} names another machine; mount its directory, and pass the path"
    if scheme in ("hdfs", "webhdfs", "webdav", "dav", "davs"):
        return (
            f"{text!r}: {scheme} cannot put a file only where there is none, which publishing a "
            f"version needs. Keep the store at {known} (HDFS can be mounted over NFS or FUSE)"
        )
    if scheme in ("gs", "gcs", "abfs", "abfss", "az", "wasb", "wasbs"):
        return (
            f"{text!r}: no storage for {scheme}: is known. Keep the store at {known} (Google Cloud "
            "Storage speaks S3 too: storage_options={'endpoint_url': ...})"
        )
    return f"{text!r}: no storage for {scheme}: is known; stores are kept at {known}"

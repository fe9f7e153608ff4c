"""The interface of a root to a file system or an object store.

The name of a file is its path relative to the root, with forward slashes. Files never change, so
the only kind of write is the creation of a new, complete file.
"""

from __future__ import annotations

import errno
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kstore_core.errors import SpecError, StorageFullError

__all__ = [
    "DISK_FULL",
    "Entry",
    "Storage",
    "is_immutable",
    "is_scratch",
    "no_space_here",
    "path_parts",
    "scratch_name",
]

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_IMMUTABLE = re.compile(r".*\.(sst|blob)")
_SCRATCH = re.compile(r"(?:.*/)?\.[^/]+-[0-9a-f]{32}\.tmp")


def scratch_name(name: str) -> str:
    """Return a new name for a file that will be renamed to ``name`` when it is complete."""
    return f".{name}-{uuid.uuid4().hex}.tmp"


def is_immutable(name: str) -> bool:
    """Return True if engines never change files with the extension of ``name``."""
    return _IMMUTABLE.fullmatch(name) is not None


def is_scratch(name: str) -> bool:
    """Return True if :func:`scratch_name` has made the last part of ``name``.

    A writer that is killed leaves such a file, which no reader opens.
    """
    return _SCRATCH.fullmatch(name) is not None


def path_parts(address: str, path: str) -> list[str]:
    """Return the names in the path of an address. Raise a SpecError if one is ``.`` or ``..``."""
    parts = [part for part in path.split("/") if part]
    if {".", ".."} & set(parts):
        raise SpecError(f"the path of {address!r} contains '.' or '..'; pass the path without it")
    return parts


def no_space_here(address: str, error: OSError) -> StorageFullError:
    """Return the error for a disk of this machine that became full during a copy of ``address``."""
    return StorageFullError(
        f"no space left on this machine for files from {address}: {error.strerror}. Free some "
        "space in the directory for temporary files and in the directory KSTORE_SHARD_CACHE, and "
        "run the job again"
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A file in a listing of the storage.

    Attributes
    ----------
    name : str
        The path relative to the root.
    bytes : int
        The size of the file.
    modified_ms : int
        The time of the last write in ms since the epoch, by the storage's clock.
    is_link : bool
        True for a symbolic link. Such a link is not followed, and a root must not contain it.
    inode : tuple of int, optional
        The device and the inode, which are equal for all hard links to a file; None on an object
        store.
    """

    name: str
    bytes: int
    modified_ms: int
    is_link: bool = False
    inode: tuple[int, int] | None = None


class Storage(Protocol):
    """A tree of files. Implementations must be frozen, because Spark's workers get pickled copies.

    If the description of a method says nothing else, the method raises a ``FileNotFoundError`` for
    a missing file, and a ``CorruptionError`` for a symbolic link below the root. It raises a
    ``StorageFullError`` for a full disk, and a ``StorageUnavailableError`` for a service that does
    not answer.
    """

    @property
    def name(self) -> str:
        """The path or the address of the root, as messages show it."""

    @property
    def path(self) -> Path | None:
        """The local directory of the root, or None on an object store, HDFS or a volume."""

    def names(self, directory: str, *, after: str = "") -> list[str]:
        """Return the sorted names of the entries of a directory that are greater than ``after``.

        A missing directory has no entries. Raise a StateError if ``directory`` is a file.
        """

    def files(self, directory: str) -> list[Entry]:
        """Return an entry for every file below a directory, at any depth."""

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raise an InconsistentStateError if ``name`` is not a regular file.
        """

    def digest(self, name: str) -> tuple[int, str]:
        """Read a regular file, and return its size in bytes and its SHA-256 in hexadecimal."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write a new file completely and durably; raise a FileExistsError if the file exists."""

    def upload(self, files: Mapping[str, Path]) -> None:
        """Copy local files to new names. The copies are durable after a call of :meth:`settle`.

        A copy of an immutable file may be a hard link.
        """

    def reuse(self, old: str, new: str) -> str:
        """Make the content of ``old`` available for ``new``, if possible without a copy.

        Return the name of the file that has the content: ``new``, or ``old`` if the storage needs
        no file ``new``.
        """

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        """Copy files to new local paths.

        If ``linked`` is true, a copy of an immutable file may be a hard link.
        """

    def settle(self, directory: str) -> None:
        """Make a directory, and all names below it, durable against a power failure."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete the files ``names``. A name without a file is skipped."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with its content, if the directory exists."""

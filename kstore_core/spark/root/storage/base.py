"""The interface of a root to a file system or an object store.

Names are relative to the root, with forward slashes. A file is written once, whole, and never
changes. So the only kind of write is the creation of a new file.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["DISK_FULL", "Entry", "Storage"]

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a listing."""

    name: str
    bytes: int
    modified_ms: int  # of the last write, since the epoch, by the storage's clock
    is_link: bool = False  # a symbolic link, which is not followed and not valid in a root
    inode: tuple[int, int] | None = None  # equal for all names of one file; None: one name only


class Storage(Protocol):
    """A tree of files. Implementations are frozen and pickled for the workers of a cluster.

    By default methods raise a ``FileNotFoundError`` for a missing file, a ``StorageFullError`` for
    a full disk, a ``StorageUnavailableError`` for a service that does not answer, and a
    ``CorruptionError`` for a symbolic link below the root.
    """

    @property
    def name(self) -> str:
        """The root's path or address, for messages."""

    @property
    def path(self) -> Path | None:
        """The root's directory; None on an object store."""

    def names(self, directory: str) -> list[str]:
        """List the names of a directory's entries, sorted; a StateError if it is a file."""

    def files(self, directory: str) -> list[Entry]:
        """List every file at any depth below a directory."""

    def size(self, name: str) -> int:
        """Return the size of a file, bytes."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; an InconsistentStateError if it is not a regular file."""

    def digest(self, name: str) -> tuple[int, str]:
        """The size and the hexadecimal SHA-256 of a regular file, from a read of all its bytes."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write a file, whole and durable; a FileExistsError if it exists already."""

    def upload(self, files: Mapping[str, Path]) -> None:
        """Copy local files to new names; :meth:`settle` makes them durable."""

    def reuse(self, old: str, new: str) -> str:
        """Make the content of ``old`` available for ``new``; return the name of the content."""

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        """Copy files to new local paths; ``linked`` files may be links, and must not change."""

    def settle(self, directory: str) -> None:
        """Make a directory and the names below it survive a power cut."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; missing ones are skipped."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with its content, if it exists."""

"""The interface that a root needs of a file system or an object store.

Names are relative to the root, with forward slashes. A file is written once, whole, and never
changed; so beside reading a storage needs only to write a file that does not exist yet.
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
    is_link: bool = False  # a symbolic link, which is not followed; no root has one
    inode: tuple[int, int] | None = None  # equal for all names of one file; None: it has one only


class Storage(Protocol):
    """A tree of files. Implementations are frozen and travel to the workers of a cluster.

    Unless a method says otherwise, a missing file is a ``FileNotFoundError``, a full disk a
    ``StorageFullError``, a service that does not answer a ``StorageUnavailableError``, and a
    symbolic link below the root a ``CorruptionError``.
    """

    @property
    def name(self) -> str:
        """The root's path or address, for messages."""

    @property
    def path(self) -> Path | None:
        """The root's directory; None if this machine has none."""

    def names(self, directory: str) -> list[str]:
        """List the last parts of a directory's entries, sorted; a StateError if it is a file."""

    def files(self, directory: str) -> list[Entry]:
        """List every file at any depth below a directory."""

    def size(self, name: str) -> int:
        """The size of a file, bytes."""

    def read(self, name: str) -> bytes:
        """The content of a file; an InconsistentStateError if it is no regular one."""

    def digest(self, name: str) -> tuple[int, str]:
        """The size and the hexadecimal SHA-256 of a regular file, all of which is read."""

    def put_new(self, name: str, data: bytes) -> None:
        """Write a file, whole and durable; a FileExistsError if it exists already."""

    def upload(self, files: Mapping[str, Path]) -> None:
        """Copy local files to new names; :meth:`settle` makes them durable."""

    def reuse(self, old: str, new: str) -> str:
        """Make the content of ``old`` available for ``new``; return the name that has it."""

    def download(self, files: Mapping[str, Path], *, linked: bool = False) -> None:
        """Copy files to new local paths; ``linked`` files are never written to."""

    def settle(self, directory: str) -> None:
        """Make a directory and the names below it survive a power cut."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; missing ones are skipped."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with its content, if it exists."""

"""The inbox of an epoch: a directory of files that tasks write and the epoch's commit reads.

::

    <root>/live/inbox/<query>-<epoch>/<task>-<attempt>.arrow

A sink cannot tell Spark how to distribute the rows, so every task may get rows of every shard. The
tasks therefore write their rows to the inbox, and the commit distributes the rows to the shards.
The commit reads the files in the order of the tasks' numbers.
"""

from __future__ import annotations

import re
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.errors import CorruptionError, KStoreError, StateError
from kstore_core.spark.live.layout import LIVE
from kstore_core.spark.root.shard_files import sha256_of
from kstore_core.spark.root.storage.base import Entry, Storage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["INBOX", "Inbox", "InboxFile", "abandoned"]

INBOX = f"{LIVE}/inbox"
"""The directory of all inboxes in a root."""

_FILE = re.compile(rf"({INBOX}/(.+)-([0-9]+))/[0-9]{{6,}}-[0-9a-f]{{32}}\.arrow")
_RESTART = "Restart the query, which then writes the rows of the epoch again"


@dataclass(frozen=True, slots=True)
class InboxFile:
    """A file with rows of one task.

    Attributes
    ----------
    name : str
        The path of the file relative to the root.
    sha256 : str, optional
        The SHA-256 of a file on an object store; None on a disk.
    """

    name: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Inbox:
    """The files with the rows of one epoch of a query."""

    storage: Storage
    query: str
    epoch: int

    @property
    def place(self) -> str:
        """The directory of the files, relative to the root."""
        return f"{INBOX}/{self.query}-{self.epoch}"

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> InboxFile | None:
        """Write a task's batches to a new file, and return the file.

        If there are no batches, write no file and return None.
        """
        import pyarrow as pa

        first = next(batches, None)
        if first is None:
            return None
        name = f"{self.place}/{task:06}-{uuid.uuid4().hex}.arrow"
        with self._here() as directory:
            here = directory / name
            here.parent.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(str(here), "wb") as file, pa.ipc.new_file(file, first.schema) as rows:
                rows.write_batch(first)
                for batch in batches:
                    rows.write_batch(batch)
            if self.storage.path is not None:
                return InboxFile(name, None)
            self.storage.upload({name: here})
            return InboxFile(name, sha256_of(here))

    def read(self, files: Iterable[InboxFile]) -> pa.Table | None:
        """Return the rows of files in the order of their tasks, or None without files.

        Raise a StateError if a file is missing. Raise a CorruptionError if a file on an object
        store differs from the file that the task has written.
        """
        import pyarrow as pa

        tables = []
        with self._here() as directory:
            ordered = sorted(files, key=lambda file: file.name)
            try:
                self._fetch(ordered, directory)
                for each in ordered:
                    # The memory map of a file stays valid after the file is removed.
                    here = str(directory / each.name)
                    with pa.memory_map(here) as file, pa.ipc.open_file(file) as rows:
                        tables.append(rows.read_all())
            except FileNotFoundError as error:
                raise StateError(
                    f"{self.storage.name}/{self.place} lacks a file with rows of epoch "
                    f"{self.epoch} ({error}). Either a vacuum with a grace_s shorter than the "
                    "epoch has removed the file, or another process has committed the epoch. "
                    f"{_RESTART}"
                ) from error
        return pa.concat_tables(tables) if tables else None

    def names(self) -> list[str]:
        """Return the names of all files of this epoch, and of earlier epochs of the query."""
        matches = (_FILE.fullmatch(entry.name) for entry in self.storage.files(INBOX))
        return [
            match[0]
            for match in matches
            if match is not None and match[2] == self.query and int(match[3]) <= self.epoch
        ]

    def remove(self, names: Iterable[str]) -> None:
        """Remove files. Errors of the storage are ignored, because a later epoch tries again."""
        with suppress(OSError, KStoreError):
            self.storage.delete([*names])

    @contextmanager
    def _here(self) -> Iterator[Path]:
        """Return a context manager of a directory on this machine for files of the inbox.

        On a disk, the directory is the root. On an object store, it is a temporary directory.
        """
        if self.storage.path is not None:
            yield self.storage.path
        else:
            with tempfile.TemporaryDirectory(prefix="kstore-inbox-") as scratch:
                yield Path(scratch)

    def _fetch(self, files: list[InboxFile], directory: Path) -> None:
        """Copy files of an object store to a directory, and check their content."""
        fetched = {each.name: directory / each.name for each in files if each.sha256 is not None}
        if fetched:
            (directory / self.place).mkdir(parents=True)
            self.storage.download(fetched)
        for each in files:
            if each.sha256 is not None and sha256_of(fetched[each.name]) != each.sha256:
                raise CorruptionError(
                    f"{self.storage.name}/{each.name} differs from the file that a task has "
                    f"written: its SHA-256 is not {each.sha256}. {_RESTART}"
                )


def abandoned(listed: Iterable[Entry], before_ms: float) -> list[Entry]:
    """Return the files of the inboxes to which no task has written since ``before_ms``.

    ``listed`` contains files of the directory `INBOX`.
    """
    of_epoch: dict[str, list[Entry]] = defaultdict(list)
    for entry in listed:
        match = _FILE.fullmatch(entry.name)
        if match is not None:
            of_epoch[match[1]].append(entry)
    return [
        entry
        for entries in of_epoch.values()
        if max(entry.modified_ms for entry in entries) < before_ms
        for entry in entries
    ]

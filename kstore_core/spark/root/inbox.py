"""The inbox of an epoch, to which tasks write files that the commit of the epoch reads.

::

    <root>/live/inbox/<query>-<epoch>/<task>-<attempt>.arrow

A sink cannot tell Spark how to distribute the rows, so every task may get rows of every shard.
Therefore a sink needs the inbox. The commit reads the files in the order of the tasks' numbers.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

__all__ = ["Inbox"]


@dataclass(frozen=True, slots=True)
class Inbox:
    """The directory of the files with the rows of one epoch."""

    path: Path

    @classmethod
    def of(cls, live: Path, query: str, epoch: int) -> Inbox:
        """Return the inbox of an epoch of a query. ``live`` is the live directory of the root."""
        return cls(live / "inbox" / f"{query}-{epoch}")

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Write a task's batches to a file, and return the name of the file.

        If there are no batches, write no file and return None.
        """
        first = next(batches, None)
        if first is None:
            return None
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"{task:06}-{uuid.uuid4().hex}.arrow"
        with (
            pa.OSFile(str(self.path / name), "wb") as file,
            pa.ipc.new_file(file, first.schema) as rows,
        ):
            rows.write_batch(first)
            for batch in batches:
                rows.write_batch(batch)
        return name

    def read(self, names: Iterable[str]) -> pa.Table | None:
        """Return the rows of the files ``names`` in the order of their tasks.

        If ``names`` is empty, return None.
        """
        tables = []
        for name in sorted(names):
            with pa.memory_map(str(self.path / name)) as file, pa.ipc.open_file(file) as rows:
                tables.append(rows.read_all())
        return pa.concat_tables(tables) if tables else None

    def clear(self) -> None:
        """Remove the inbox of this epoch and the inboxes of earlier epochs that failed."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

"""The inbox of an epoch: tasks write their rows to files, and the commit reads the files.

::

    <root>/live/inbox/<query>-<epoch>/<task>-<attempt>.arrow

The inbox is needed because a task may have rows of every shard: a sink cannot tell Spark how to
distribute the rows. The commit reads the files in the order of the tasks' numbers.
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
    """The directory that has the rows of one epoch."""

    path: Path

    @classmethod
    def of(cls, live: Path, query: str, epoch: int) -> Inbox:
        """Return the inbox of an epoch of a query; ``live`` is the live directory of the root."""
        return cls(live / "inbox" / f"{query}-{epoch}")

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Write a task's batches to a file; return its name, or None if there are no batches."""
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
        """Read the rows of the named files, ordered by task. Return None if no file is named."""
        tables = []
        for name in sorted(names):
            with pa.memory_map(str(self.path / name)) as file, pa.ipc.open_file(file) as rows:
                tables.append(rows.read_all())
        return pa.concat_tables(tables) if tables else None

    def clear(self) -> None:
        """Remove the files of this epoch and of all earlier epochs that failed."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

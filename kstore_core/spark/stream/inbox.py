"""The inbox of an epoch's rows: tasks write their rows, and the commit reads them in task order.

::

    <root>/live/inbox/<query>-<epoch>/<task>-<attempt>.arrow

A sink cannot request a distribution of rows, so a task may have rows of every shard.
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
    """The rows of one epoch, in a directory."""

    path: Path

    @classmethod
    def of(cls, live: Path, query: str, epoch: int) -> Inbox:
        """Return the inbox of an epoch."""
        return cls(live / "inbox" / f"{query}-{epoch}")

    def write(self, task: int, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Write the batches of a task; return the file's name, None if there are no batches."""
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
        """Read the rows of files, in the order of their tasks; None if there are no files."""
        tables = []
        for name in sorted(names):
            with pa.memory_map(str(self.path / name)) as file, pa.ipc.open_file(file) as rows:
                tables.append(rows.read_all())
        return pa.concat_tables(tables) if tables else None

    def clear(self) -> None:
        """Remove the files of this epoch, and of failed epochs before it."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

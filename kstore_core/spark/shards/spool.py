"""Temporary files for the records of a shard that do not fit into memory.

The records of each file are sorted. A merge of the files yields the sorted records in pieces that
fit into memory. A piece is called a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from kstore_core.errors import SpecError, StorageFullError
from kstore_core.spark.columns.arrow import integers
from kstore_core.spark.columns.log_keys import user_keys
from kstore_core.spark.root.storage.base import DISK_FULL
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.merging import Block, merged
from kstore_core.spec import StoreSpec
from kstore_core.system.interrupts import leave

__all__ = ["DEFAULT_RUN_BYTES", "LogSpool", "check_run_bytes", "in_tables"]

DEFAULT_RUN_BYTES = 128 * 1024 * 1024
_MOST = 2**31 - 1
"""The greatest size of a run in bytes, because a column of Arrow cannot contain more bytes."""

_BLOCKS = 64
"""The number of blocks in a file of ``run_bytes``. A merge keeps one block per file in memory."""

_BEFORE = np.iinfo(np.int64).min
_POSITION = "position"
_NOT_STORED = ("shards", "users")


def check_run_bytes(run_bytes: object) -> int:
    """Return ``run_bytes``, or raise a SpecError if it is not a valid size of a run in bytes."""
    if type(run_bytes) is not int or not 1 <= run_bytes <= _MOST:
        raise SpecError(
            f"run_bytes={run_bytes!r} is not the size of a run in bytes; pass an int from 1 to "
            f"{_MOST}"
        )
    return run_bytes


def in_tables(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[pa.Table]:
    """Combine batches into tables of at most ``run_bytes``.

    If a batch is larger than ``run_bytes``, it becomes a table without other batches.
    """
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if pending and size + batch.nbytes > run_bytes:
            yield pa.Table.from_batches(pending)
            pending, size = [], 0
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
    if pending:
        yield pa.Table.from_batches(pending)


class LogSpool:
    """A container of the records of one shard, in memory or in files.

    The records of the first call of :meth:`add` stay in memory until the second call, which writes
    these first records to a file. Every call after the first writes its own records to a new file.
    A file is divided by source partition. The records of a source partition are sorted by offset,
    or by arrival if they have no offsets.

    Parameters
    ----------
    directory : Path
        The directory for the files. The spool creates the directory before it writes the first
        file.
    spec : StoreSpec
        The spec of the store that the records belong to.
    run_bytes : int
        The approximate size of a run in bytes.
    """

    def __init__(self, directory: Path, spec: StoreSpec, run_bytes: int) -> None:
        self._directory = directory
        self._spec = spec
        self._run_bytes = run_bytes
        self._only: ShardLog | None = None
        self._timed = True
        self._files = 0
        self._blocks: dict[tuple[str, int], list[list[_Stored]]] = {}
        self._open = ExitStack()
        self.records = 0

    def __enter__(self) -> Self:
        return self

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        self._open.close()

    @property
    def is_on_disk(self) -> bool:
        """True if the records are in files. Then :meth:`runs` may yield several runs."""
        return self._files > 0

    def add(self, log: ShardLog) -> None:
        """Add records. They must have arrived after the records of the previous calls."""
        if not self.records:
            self._only = log
        elif len(log):
            if self._only is not None:
                self._store(self._only, 0)
                self._only = None
            self._store(log, self.records)
        self.records += len(log)

    def runs(self) -> Iterator[ShardLog]:
        """Yield all records in runs, in the order in which :meth:`ShardLog.of` would return them.

        A caller may call this method only once, because the spool releases a run in memory when it
        yields the run.
        """
        if not self.is_on_disk:
            log, self._only = self._only, None
            if log is not None:
                yield log
            return
        sources = [
            merged([_Blocks(blocks) for blocks in files])
            for _, files in sorted(self._blocks.items())
        ]
        if len(sources) == 1:
            pieces = sources[0]
        else:
            pieces = merged([_InStreamTime(source) for source in sources])
        batches = (batch for piece in pieces for batch in piece.rows.to_batches())
        for table in in_tables(batches, self._run_bytes):
            yield self._log(table.combine_chunks())

    def _store(self, log: ShardLog, begin: int) -> None:
        """Write a log to a new file. ``begin`` is the number of records in the earlier files."""
        position = log.offsets if log.offsets is not None else log.arrivals
        if position is None:
            position = pa.array(np.arange(begin, begin + len(log)))
        columns = {_POSITION: position.cast(pa.int64())}
        for field in dataclasses.fields(log):
            column = getattr(log, field.name)
            if isinstance(column, pa.Array) and field.name not in _NOT_STORED:
                columns[field.name] = column
        rows, self._timed = pa.record_batch(columns), log.timed
        size = max(1, len(rows) * self._run_bytes // (_BLOCKS * max(rows.nbytes, 1)))
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{self._files}.arrow"
        self._files += 1
        written: dict[tuple[str, int], list[tuple[int, int]]] = {}
        number = 0
        with (
            _naming_full_disk(path),
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, rows.schema) as writer,
        ):
            for source, places in log.by_source():
                blocks = written.setdefault(source, [])
                for start in range(0, len(places), size):
                    block = rows.take(pa.array(places[start : start + size]))
                    writer.write_batch(block)
                    blocks.append((number, block[_POSITION][0].as_py()))
                    number += 1
        file = self._open.enter_context(pa.OSFile(str(path), "rb"))
        reader = self._open.enter_context(pa.ipc.open_file(file))
        for source, blocks in written.items():
            self._blocks.setdefault(source, []).append(
                [_Stored(reader, at, first) for at, first in blocks]
            )

    def _log(self, rows: pa.Table) -> ShardLog:
        columns = {field.name: None for field in dataclasses.fields(ShardLog)}
        columns |= {name: rows[name].chunk(0) for name in rows.column_names if name != _POSITION}
        users = user_keys(self._spec, columns["keys"])
        return ShardLog(**{**columns, "users": users, "timed": self._timed})


@contextlib.contextmanager
def _naming_full_disk(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise StorageFullError(
            f"no space left for {path}, a temporary file with records of a shard: {error}. Free "
            "some space, or set TMPDIR on the workers to a directory on a larger disk; published "
            "versions are intact"
        ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    """A block of a file. ``first`` is the offset or the arrival number of its first record."""

    reader: pa.ipc.RecordBatchFileReader
    number: int
    first: int


class _Blocks:
    """The stream of the blocks of one source partition in one file."""

    def __init__(self, blocks: list[_Stored]) -> None:
        self._rest = iter(blocks)
        self._next = next(self._rest, None)

    @property
    def low(self) -> int | None:
        return None if self._next is None else self._next.first

    def load(self) -> Block:
        assert self._next is not None
        rows = pa.Table.from_batches([self._next.reader.get_batch(self._next.number)])
        self._next = next(self._rest, None)
        return Block(integers(rows[_POSITION]), rows)


class _InStreamTime:
    """The stream of a source partition. A record's key is the stream time after the record."""

    def __init__(self, source: Iterator[Block]) -> None:
        self._source = source
        self._low: int | None = int(_BEFORE)

    @property
    def low(self) -> int | None:
        return self._low

    def load(self) -> Block:
        assert self._low is not None
        block = next(self._source, None)
        if block is None:
            self._low = None
            return Block(np.zeros(0, np.int64), pa.table({}))
        times = integers(block.rows["timestamps"])
        reached = np.maximum(np.maximum.accumulate(times), self._low)
        self._low = int(reached[-1])
        return Block(reached, block.rows)

"""Engines that keep their promises, but for those about being killed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from kstore_core.engine import Engine, Rows
from kstore_core.tables import OFFSETS
from kstore_core.testing import WrappedDatabase, WrappedEngine
from kstore_lmdb import LMDBEngine
from kstore_rocksdb import RocksDBEngine

WIDE_S = 0.003
"""How long a bug lies open."""


class Crashing(WrappedEngine):
    """LMDB, wrapped, without a bug.

    Attributes
    ----------
    killed : str
        The combination that comes upon the bug.
    """

    killed: ClassVar[str] = "headers-process-bare-staged"

    def __init__(self, options: Any = None) -> None:
        super().__init__(self.make(options))

    def make(self, options: Any) -> Engine:
        """The engine that is wrapped."""
        return LMDBEngine(options)


def parted(batch):
    rows = {name: rows for name, rows in batch.items() if name != OFFSETS}
    return rows, {name: rows for name, rows in batch.items() if name == OFFSETS}


class _OffsetsFirst(WrappedDatabase):
    def write(self, batch):
        rows, offsets = parted(batch)
        if offsets:
            self.inner.write(offsets)
            time.sleep(WIDE_S)
        self.inner.write(rows)


class OffsetsFirst(Crashing):
    """Offsets are written before the rows that they vouch for."""

    database_type: ClassVar[type[WrappedDatabase]] = _OffsetsFirst


class _RowsFirst(WrappedDatabase):
    def write(self, batch):
        rows, offsets = parted(batch)
        self.inner.write(rows)
        if offsets:
            time.sleep(WIDE_S)
            self.inner.write(offsets)


class RowsFirst(Crashing):
    """Offsets are never ahead of rows, but rows and offsets are not one batch."""

    database_type: ClassVar[type[WrappedDatabase]] = _RowsFirst


class _Torn(WrappedDatabase):
    def write(self, batch):
        halves: list[dict[str, Rows]] = [{}, {}]
        for name, rows in batch.items():
            for half, part in zip(halves, (slice(0, None, 2), slice(1, None, 2)), strict=True):
                half[name] = Rows(rows.keys[part], rows.values[part])
        self.inner.write(halves[0])
        time.sleep(WIDE_S)
        self.inner.write(halves[1])


class Torn(Crashing):
    """A batch is written in two halves."""

    database_type: ClassVar[type[WrappedDatabase]] = _Torn


class _Late(WrappedDatabase):
    held = None

    def write(self, batch):
        held, self.held = self.held, batch
        if held:
            self.inner.write(held)
        if OFFSETS not in batch or len(batch) == 1:  # what opens and closes is not late
            self.close_held()

    def close_held(self):
        held, self.held = self.held, None
        if held:
            self.inner.write(held)

    def close(self):
        self.close_held()
        self.inner.close()


class Late(Crashing):
    """A batch is written with the next one, or by a close; a write returns before."""

    database_type: ClassVar[type[WrappedDatabase]] = _Late


class _Forgetful(WrappedDatabase):
    writes = 0

    def write(self, batch):
        self.writes += 1
        self.inner.write(batch if self.writes % 5 else parted(batch)[1])


class Forgetful(Crashing):
    """The rows of every fifth batch are lost, and its offsets are not."""

    database_type: ClassVar[type[WrappedDatabase]] = _Forgetful


class LateSegments(Late):
    """Of RocksDB's segments: the newest one, with the offsets, may be there before the others."""

    killed: ClassVar[str] = "window-process-bare-staged"

    def make(self, options: Any) -> Engine:
        return RocksDBEngine(options)


PLANTED = (OffsetsFirst, RowsFirst, Torn, Late, Forgetful, LateSegments)

"""LevelDB's workloads on every installed engine, compared with the bare binding in the same run.

Keys have 16 bytes and values 100 bytes. No write is synced to disk. To print a table, run ``python
-m asv_benchmarks.benchmarks.engines [ROWS [ENGINE …]]``.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import nan
from pathlib import Path

from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.errors import EngineUnavailableError

from .bindings import BINDINGS, SpiTable, Table
from .sizes import sized
from .workloads import VALUE, shuffled_keys

ENGINES = tuple(dict.fromkeys(engine.name for engine in installed_engines()))
ROWS = sized(20_000)
BATCH = 1000
SEEK_ROWS = 10


@dataclass(frozen=True)
class Keys:
    """The keys of a run. The keys ``missing`` lie between the other keys."""

    ascending: list[bytes]
    shuffled: list[bytes]
    probes: list[bytes]
    missing: list[bytes]

    @classmethod
    def make(cls, rows: int) -> Keys:
        shuffled = shuffled_keys(rows)
        probes = random.Random(2).sample(shuffled, rows)
        return cls(sorted(shuffled), shuffled, probes, [key[:-1] + b"." for key in probes])


Workload = Callable[[Table, Keys], int]
"""A function that does the work on a table, and returns the number of operations."""


def fillseq(table: Table, keys: Keys) -> int:
    """Write rows with ascending keys, one row per write."""
    return put_each(table, keys.ascending)


def fillrandom(table: Table, keys: Keys) -> int:
    """Write rows with shuffled keys, one row per write."""
    return put_each(table, keys.shuffled)


def fillbatch(table: Table, keys: Keys) -> int:
    """Write rows with ascending keys, 1000 rows per write, which is more like a commit."""
    rows = keys.ascending
    for start in range(0, len(rows), BATCH):
        chunk = rows[start : start + BATCH]
        table.put_many(chunk, [VALUE] * len(chunk))
    return len(rows)


def readrandom(table: Table, keys: Keys) -> int:
    """Look up every key, in random order."""
    return get_each(table, keys.probes)


def readmissing(table: Table, keys: Keys) -> int:
    """Look up keys that are missing, each between two existing keys."""
    return get_each(table, keys.missing)


def seekrandom(table: Table, keys: Keys) -> int:
    """Scan ten rows from a random key on, many times."""
    starts = keys.probes[::SEEK_ROWS]
    for key in starts:
        table.seek(key, SEEK_ROWS)
    return len(starts)


def readseq(table: Table, keys: Keys) -> int:
    """Scan all rows."""
    return table.read(reverse=False)


def readreverse(table: Table, keys: Keys) -> int:
    """Scan all rows from the last to the first."""
    return table.read(reverse=True)


def put_each(table: Table, keys: list[bytes]) -> int:
    put = table.put
    for key in keys:
        put(key, VALUE)
    return len(keys)


def get_each(table: Table, keys: list[bytes]) -> int:
    get = table.get
    for key in keys:
        get(key)
    return len(keys)


FILLS = (fillseq, fillrandom, fillbatch)
READS = (readrandom, readmissing, seekrandom, readseq, readreverse)
WORKLOADS: dict[str, Workload] = {workload.__name__: workload for workload in (*FILLS, *READS)}


class Side:
    """One interface to an engine's rows. Each fill gets a new table, but reads share a table."""

    def __init__(self, make: Callable[[Path], Table], root: Path, keys: Keys) -> None:
        self.make = make
        self.root = root
        self.keys = keys
        self.numbers = count()
        self.full: Table | None = None

    def table(self) -> Table:
        return self.make(self.root / str(next(self.numbers)))

    def ns(self, workload: Workload) -> float:
        """Run a workload once, and return the nanoseconds per operation."""
        if workload in FILLS:
            table = self.table()
            try:
                return timed(workload, table, self.keys)
            finally:
                table.close()
        if self.full is None:
            self.full = self.table()
            fillbatch(self.full, self.keys)
            self.full.settle()
        return timed(workload, self.full, self.keys)

    def close(self) -> None:
        if self.full is not None:
            self.full.close()


def timed(workload: Workload, table: Table, keys: Keys) -> float:
    begin = time.perf_counter_ns()
    operations = workload(table, keys)
    return (time.perf_counter_ns() - begin) / operations


class Pair:
    """An engine through the SPI, and the engine's bare binding if there is one to compare with."""

    def __init__(self, engine: str, rows: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        keys = Keys.make(rows)
        self.engine = Side(lambda root: SpiTable(engine, root), self.scratch / "engine", keys)
        bare = BINDINGS.get(engine)
        self.binding = None if bare is None else Side(bare, self.scratch / "binding", keys)

    def least(self, workload: str, rounds: int) -> tuple[float, float | None]:
        """Return the least nanoseconds per operation of the engine and of the binding.

        The two alternate for ``rounds`` rounds.
        """
        work = WORKLOADS[workload]
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(self.engine.ns(work))
            if self.binding is not None:
                theirs.append(self.binding.ns(work))
        return min(ours), min(theirs, default=None)

    def close(self) -> None:
        self.engine.close()
        if self.binding is not None:
            self.binding.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Suite:
    """The workloads with 20,000 rows, on each engine that is installed and can be loaded."""

    params = (ENGINES, tuple(WORKLOADS))
    param_names = ("engine", "workload")

    def setup(self, engine: str, workload: str) -> None:
        try:
            engine_class(engine)
        except EngineUnavailableError as error:
            raise NotImplementedError from error  # asv skips it
        self.pair = Pair(engine, ROWS)

    def teardown(self, engine: str, workload: str) -> None:
        self.pair.close()


class Operations(Suite):
    """The time of one operation through the SPI."""

    unit = "ns"

    def track_operation(self, engine: str, workload: str) -> float:
        self.pair.binding = None
        return self.pair.least(workload, rounds=3)[0]


class Ratios(Suite):
    """The engine's time divided by the binding's in alternating runs; nan without a binding."""

    unit = "ratio"

    def track_over_binding(self, engine: str, workload: str) -> float:
        ours, theirs = self.pair.least(workload, rounds=3)
        return nan if theirs is None else ours / theirs


def markdown(rows: int, engines: list[str], rounds: int = 5) -> str:
    """Return a table of the ns per operation, with the ratio to the binding in parentheses."""
    columns = {}
    for engine in engines:
        pair = Pair(engine, rows)
        columns[engine] = [cell(*pair.least(workload, rounds)) for workload in WORKLOADS]
        pair.close()
    lines = [["", *engines], ["---"] * (len(engines) + 1)]
    lines += [
        [f"`{workload}`", *cells]
        for workload, *cells in zip(WORKLOADS, *columns.values(), strict=True)
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(ours: float, theirs: float | None) -> str:
    return f"{ours:,.0f}" if theirs is None else f"{ours:,.0f} ({ours / theirs:.2f})"


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    sys.stdout.write(markdown(wanted, sys.argv[2:] or list(ENGINES)))

"""The data and orders of all workloads, and the report of their results."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kstore_core import open_state
from kstore_core.state import StateDirectory

__all__ = ["HEADERS", "MISSING", "POOL", "VALUES", "Run", "keys", "pause", "report", "shuffled"]

POOL = 4096
"""The number of different values and headers, a power of two."""

MISSING = 1 << 40
"""The first index of keys that no store has."""

_RANDOM = random.Random(99)
VALUES = [_RANDOM.randbytes(100) for _ in range(POOL)]
HEADERS = [
    [(key, _RANDOM.randbytes(20)) for key in ("trace-id-0", "span-id-00", "tenant-id0")]
    for _ in range(POOL)
]


def keys(first: int, count: int) -> list[bytes]:
    """Return the keys with ``count`` numbers from ``first`` on, each of 16 random-looking bytes."""
    with np.errstate(over="ignore"):
        index = np.arange(first, first + count, dtype=np.uint64) * np.uint64(2)
        halves = np.stack([_mixed(index), _mixed(index + np.uint64(1))], axis=1)
    data = halves.astype(">u8").tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def _mixed(seed: np.ndarray) -> np.ndarray:
    """Return the values of the random function splitmix64."""
    z = seed + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def shuffled(count: int, seed: int) -> list[int]:
    """Return the numbers below ``count`` in a random order."""
    return np.random.default_rng(seed).permutation(count).tolist()


def report(bench: str, op: str, value: float) -> None:
    """Print one measurement as a line of JSON."""
    sys.stdout.write(json.dumps({"bench": bench, "op": op, "value": value}) + "\n")
    sys.stdout.flush()


def pause() -> None:
    """Wait until the engine's background work has probably ended."""
    time.sleep(1.5)


@dataclass(frozen=True)
class Run:
    """The engine, the durability and the number of records of a run."""

    engine: str
    durability: str
    count: int

    @contextmanager
    def state(self, engine: str | None = None) -> Iterator[StateDirectory]:
        """Open a state in a temporary directory."""
        with (
            tempfile.TemporaryDirectory(prefix="kstore-peer-") as scratch,
            self.open(Path(scratch), engine) as state,
        ):
            yield state

    def open(self, directory: Path, engine: str | None = None) -> StateDirectory:
        """Open the state of a directory."""
        return open_state(
            directory / "0_0", engine=engine or self.engine, durability=self.durability
        )

    @contextmanager
    def timed(self, bench: str, op: str, count: int) -> Iterator[None]:
        """Report the operations per second of a block of ``count`` operations."""
        start = time.perf_counter()
        yield
        report(bench, op, count / (time.perf_counter() - start))

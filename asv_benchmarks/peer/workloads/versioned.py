"""A versioned store with ten versions of each key: put in order and late, latest, as of a time."""

from __future__ import annotations

import random

from kstore_core import stores

from .data import POOL, VALUES, Run, keys, pause

__all__ = ["START_MS", "STEP_MS", "VERSIONS", "run"]

VERSIONS = 10
STEP_MS = 60_000
START_MS = 1_000_000_000
HISTORY = {"history_retention_ms": 3_600_000, "segment_interval_ms": 300_000}
_BENCH = "versioned"


def run(run: Run) -> None:
    """Measure all operations."""
    _measure(run, some_late=False)
    _measure(run, some_late=True)


def _measure(run: Run, *, some_late: bool) -> None:
    distinct = keys(0, run.count // VERSIONS)
    source = random.Random(5)
    late = [
        90_000 + source.randrange(30_000) if some_late and source.randrange(10) == 0 else 0
        for _ in range(run.count)
    ]
    with run.state() as state:
        store = state.open(stores.versioned_key_value("versioned", **HISTORY))
        number = 0
        with run.timed(
            _BENCH, "put_10pct_out_of_order" if some_late else "put_in_order", run.count
        ):
            for version in range(VERSIONS):
                for i, key in enumerate(distinct):
                    timestamp = START_MS + version * STEP_MS + i * STEP_MS // len(distinct)
                    store.put(key, VALUES[number & (POOL - 1)], timestamp=timestamp - late[number])
                    number += 1
            state.commit()
        if some_late:
            return
        pause()
        wanted = [distinct[source.randrange(len(distinct))] for _ in range(run.count)]
        span = (VERSIONS - 1) * STEP_MS
        times = [START_MS + STEP_MS + int(source.random() * span) for _ in range(run.count)]
        size = 0
        with run.timed(_BENCH, "get_latest", run.count):
            for key in wanted:
                found = store.get(key)
                if found is not None:
                    size += len(found.value)
        with run.timed(_BENCH, "get_as_of", run.count):
            for key, time in zip(wanted, times, strict=True):
                found = store.get(key, as_of=time)
                if found is not None:
                    size += len(found.value)
        assert size == run.count * 200
        with run.timed(_BENCH, "get_many_as_of_1000", run.count):
            for at in range(0, run.count, 1000):
                store.get_many(wanted[at : at + 1000], as_of=times[at])

"""A session store with headers: put, the sessions of two minutes, one session."""

from __future__ import annotations

import random

from kstore_core import Windowed, stores

from .data import HEADERS, POOL, VALUES, Run, keys, pause, shuffled
from .window import KEYS, SPAN_MS, START_MS

__all__ = ["run"]

_SESSION_MS = 5_000
_RANGE_MS = 60_000
_BENCH = "session_headers"


def run(run: Run) -> None:
    """Measure all operations."""
    distinct, source, order = keys(0, KEYS), random.Random(6), shuffled(run.count, 8)
    key = [distinct[source.randrange(KEYS)] for _ in range(run.count)]
    end = [START_MS + i * SPAN_MS // run.count for i in range(run.count)]
    some = order[: run.count // 10]
    with run.state() as state:
        store = state.open(stores.session_with_headers("session", retention_ms=3_600_000))
        with run.timed(_BENCH, "put", run.count):
            for i in range(run.count):
                at = i & (POOL - 1)
                window = Windowed(key[i], end[i] - _SESSION_MS, end[i])
                store.put(window, VALUES[at], headers=HEADERS[at])
            state.commit()
        pause()
        size = 0
        with run.timed(_BENCH, "find_sessions_2min", len(some)):
            for i in some:
                for _, found in store.find_sessions(key[i], end[i] - _RANGE_MS, end[i] + _RANGE_MS):
                    size += len(found.aggregation)
        with run.timed(_BENCH, "fetch_session_hit", len(some)):
            for i in some:
                size += len(store.fetch_session(key[i], end[i] - _SESSION_MS, end[i]).aggregation)
        assert size % 100 == 0

"""A window store with timestamps and headers: put, one window, ten minutes of a key, scan."""

from __future__ import annotations

import random

from kstore_core import stores

from .data import HEADERS, POOL, VALUES, Run, keys, pause, shuffled

__all__ = ["KEYS", "SPAN_MS", "START_MS", "run"]

KEYS = 10_000
START_MS = 1_800_000_000
SPAN_MS = 3_000_000
_WINDOW_MS = 10_000
_RANGE_MS = 300_000
_BENCH = "window_headers"


def run(run: Run) -> None:
    """Measure all operations."""
    distinct, source, order = keys(0, KEYS), random.Random(6), shuffled(run.count, 8)
    key = [distinct[source.randrange(KEYS)] for _ in range(run.count)]
    window = [
        (START_MS + i * SPAN_MS // run.count) // _WINDOW_MS * _WINDOW_MS for i in range(run.count)
    ]
    with run.state() as state:
        store = state.open(
            stores.timestamped_window_with_headers(
                "window", retention_ms=3_600_000, window_size_ms=_WINDOW_MS
            )
        )
        with run.timed(_BENCH, "put", run.count):
            for i in range(run.count):
                at = i & (POOL - 1)
                store.put(
                    key[i],
                    VALUES[at],
                    window_start=window[i],
                    timestamp=window[i],
                    headers=HEADERS[at],
                )
            state.commit()
        pause()
        size = 0
        with run.timed(_BENCH, "fetch_one_hit", run.count // 2):
            for i in order[: run.count // 2]:
                size += len(store.fetch_one(key[i], window[i]).value)
        with run.timed(_BENCH, "fetch_key_10min_range", run.count // 10):
            for i in order[: run.count // 10]:
                for _, found in store.fetch(key[i], window[i] - _RANGE_MS, window[i] + _RANGE_MS):
                    size += len(found.value)
        with run.timed(_BENCH, "all", len(set(zip(key, window, strict=True)))):
            for _, found in store.all():
                size += len(found.value)
        assert size % 100 == 0

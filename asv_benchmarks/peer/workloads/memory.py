"""A key-value store in memory: put, get, scan."""

from __future__ import annotations

from kstore_core import stores

from .data import POOL, VALUES, Run, keys, shuffled

__all__ = ["run"]

_BENCH = "inmemory_key_value"


def run(run: Run) -> None:
    """Measure all operations."""
    present, order = keys(0, run.count), shuffled(run.count, 7)
    with run.state("memory") as state:
        store = state.open(stores.key_value("memory"))
        with run.timed(_BENCH, "put", run.count):
            for i, key in enumerate(present):
                store.put(key, VALUES[i & (POOL - 1)])
            state.commit()
        with run.timed(_BENCH, "get_hit", run.count):
            for i in order:
                store.get(present[i])
        with run.timed(_BENCH, "scan_all", run.count):
            assert sum(1 for _ in store.all()) == run.count

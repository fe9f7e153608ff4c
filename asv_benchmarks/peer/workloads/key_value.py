"""A key-value store with timestamps and headers: put, get, scan."""

from __future__ import annotations

from typing import Any

from kstore_core import stores

from .data import HEADERS, MISSING, POOL, VALUES, Run, keys, pause, shuffled

__all__ = ["SPEC", "get", "put", "run", "scan"]

SPEC = stores.timestamped_key_value_with_headers("kv")
START_MS = 1_700_000_000_000
_BENCH = "kv_headers_typed"


def run(run: Run) -> None:
    """Measure all operations."""
    present, order = keys(0, run.count), shuffled(run.count, 7)
    missing = keys(MISSING, run.count)
    with run.state() as state:
        store = state.open(SPEC)
        with run.timed(_BENCH, "put", run.count):
            put(store, present)
            state.commit()
        pause()
        with run.timed(_BENCH, "get_hit", run.count):
            get(store, present, order)
        with run.timed(_BENCH, "get_many_64", run.count):
            for at in range(0, run.count, 64):
                store.get_many([present[i] for i in order[at : at + 64]])
        with run.timed(_BENCH, "get_miss", run.count):
            for key in missing:
                assert store.get(key) is None
        with run.timed(_BENCH, "scan_all", run.count):
            assert scan(store) == run.count
        pause()  # the scan may have begun a flush, which a compaction follows
        with run.timed(_BENCH, "scan_arrow", run.count):
            assert store.all().to_arrow().num_rows == run.count
        with run.timed(_BENCH, "scan_arrow_again", run.count):  # in memory that was used before
            assert store.all().to_arrow().num_rows == run.count


def put(store: Any, present: list[bytes]) -> None:
    """Put one record for each key."""
    for i, key in enumerate(present):
        at = i & (POOL - 1)
        store.put(key, VALUES[at], timestamp=START_MS + i, headers=HEADERS[at])


def get(store: Any, present: list[bytes], order: list[int]) -> None:
    """Get a record, its value and one of its headers for each number in ``order``."""
    size = 0
    for i in order:
        found = store.get(present[i])
        size += len(found.value) + len(found.headers.last("span-id-00").value)
    assert size == len(order) * 120


def scan(store: Any) -> int:
    """Read all records and their values, and return the number of records."""
    size = count = 0
    for _, found in store.all():
        size += len(found.value)
        count += 1
    assert size == count * 100
    return count

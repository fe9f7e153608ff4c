"""The growth of times with records of a key-value store, versions of a key, and segments."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from kstore_core import stores

from . import key_value
from .data import POOL, VALUES, Run, keys, pause, report, shuffled

__all__ = ["records", "versions"]

READS = 200_000
_SEGMENT_MS = 60_000
_MEBIBYTE = 1 << 20


def records(run: Run) -> None:
    """Measure a key-value store of ``run.count`` records: its commit, its size and its open."""
    bench = f"records {run.count}"
    present, order = keys(0, run.count), shuffled(run.count, 7)[:READS]
    with tempfile.TemporaryDirectory(prefix="kstore-peer-") as scratch:
        directory = Path(scratch)
        with run.open(directory) as state:
            store = state.open(key_value.SPEC)
            start = time.perf_counter()
            key_value.put(store, present)
            begun = time.perf_counter()
            state.commit()
            ended = time.perf_counter()
            report(bench, "put", run.count / (ended - start))
            report(bench, "commit", (ended - begun) * 1e3)
            pause()
            with run.timed(bench, "get_hit", len(order)):
                key_value.get(store, present, order)
            with run.timed(bench, "scan_all", run.count):
                assert key_value.scan(store) == run.count
            report(bench, "memory", _resident_bytes() / _MEBIBYTE)
        start = time.perf_counter()
        with run.open(directory) as state:
            state.open(key_value.SPEC)
            report(bench, "open", (time.perf_counter() - start) * 1e3)
            size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
            report(bench, "disk", size / _MEBIBYTE)


def versions(run: Run, per_key: int, segments: int) -> None:
    """Put ``run.count`` versions in the order of time, and read as of random times."""
    distinct = keys(0, max(run.count // per_key, 1))
    span = segments * _SEGMENT_MS
    spec = stores.versioned_key_value(
        "versions", history_retention_ms=2 * span, segment_interval_ms=_SEGMENT_MS
    )
    source = random.Random(9)
    with run.state() as state:
        store = state.open(spec)
        for version in range(per_key):
            for i, key in enumerate(distinct):
                timestamp = span * version // per_key + span * i // per_key // len(distinct)
                value = VALUES[(version * len(distinct) + i) & (POOL - 1)]
                store.put(key, value, timestamp=timestamp)
        state.commit()
        pause()
        wanted = [
            (distinct[source.randrange(len(distinct))], int(source.random() * span))
            for _ in range(READS)
        ]
        start = time.perf_counter()
        for key, at in wanted:
            store.get(key, as_of=at)
        took = time.perf_counter() - start
        report(f"versions {per_key} segments {segments}", "as_of", took * 1e6 / READS)


def _resident_bytes() -> int:
    """Return the physical memory of this process, including the file pages that it has mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no line VmRSS")

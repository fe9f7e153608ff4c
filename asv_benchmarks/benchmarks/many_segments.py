"""A window store of 500 segments, on engines that store each segment in a database of its own.

To print the figures, run ``python -m asv_benchmarks.benchmarks.many_segments [SEGMENTS]``.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import deque
from math import nan
from pathlib import Path
from typing import Any

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class, installed_engines, make_engine
from kstore_core.errors import EngineUnavailableError
from kstore_core.tables.segments.children import max_open

from .sizes import sized
from .workloads import HEADERS, VALUE, seconds


def _has_children(engine: str) -> bool:
    try:
        return engine_class(engine).capabilities.children
    except EngineUnavailableError:
        return False


# asv also tears down skipped benchmarks, so the parameters contain only engines with children.
ENGINES = tuple(filter(_has_children, dict.fromkeys(e.name for e in installed_engines())))
SEGMENTS = sized(500, least=10)
INTERVAL_MS = 60_000
KEY = b"%016d" % 0
ROW = b"r" * 200
"""A row of about the size of a stored value."""


class ManySegments:
    """A store with one row in each segment, in a temporary directory."""

    def __init__(self, engine: str, count: int = SEGMENTS) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.engine = make_engine(engine)
        self.count = count
        self.spec = stores.timestamped_window_with_headers(
            "s", count * INTERVAL_MS, INTERVAL_MS, segment_interval_ms=INTERVAL_MS
        )
        with open_state(self.scratch / "0_0", engine=self.engine) as state:
            put = state.open(self.spec).put
            for start in range(0, count * INTERVAL_MS, INTERVAL_MS):
                put(KEY, VALUE, window_start=start, timestamp=start, headers=HEADERS)
            self.commit_seconds = seconds(state.commit)

    def bare_seconds(self) -> float:
        """Return the seconds in which the binding makes such databases with the same options."""
        if self.engine.name != "rocksdb":
            return nan
        from rocksdict import AccessType, Cache, Rdict, WriteBatch

        from kstore_rocksdb.options import NativeOptions, RocksDBOptions

        given = RocksDBOptions()
        options = NativeOptions(given, Cache(given.block_cache_bytes))
        names = (self.spec.format.namespace, "offsets")
        opened: deque[tuple[Any, ...]] = deque()
        (self.scratch / "bare").mkdir()
        begin = time.perf_counter()
        for number in range(self.count):
            if len(opened) == max_open():
                close(opened.popleft())
            database = Rdict(
                str(self.scratch / "bare" / str(number)),
                options.database(table_files=0),
                {"default": options.family("default")},
                AccessType.read_write(),
            )
            families = [database.create_column_family(name, options.family(name)) for name in names]
            opened.append((*families, database))
            batch = WriteBatch(raw_mode=True)
            for name in names:
                batch.put(KEY, ROW, database.get_column_family_handle(name))
            database.write(batch)
        elapsed = time.perf_counter() - begin
        for handles in opened:
            close(handles)
        return elapsed

    def open_and_fetch(self) -> tuple[float, float, int]:
        """Open the store, read it, and return two times in seconds and a number of descriptors.

        The times are those of the open and of the first fetch, which opens three segments. The
        number is the greatest number of file descriptors that were open while all segments were
        read.
        """
        before = descriptors()
        begin = time.perf_counter()
        with open_state(self.scratch / "0_0", engine=self.engine) as state:
            store = state.open(self.spec)
            opened = time.perf_counter()
            middle = self.count // 2 * INTERVAL_MS
            rows = list(store.fetch(KEY, middle, middle + 2 * INTERVAL_MS))
            fetched = time.perf_counter()
            assert len(rows) == 3
            most = 0
            for _ in store.all():
                most = max(most, descriptors() - before)
        return opened - begin, fetched - opened, most

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def close(handles: tuple[Any, ...]) -> None:
    """Flush and close the families of a database, and then the database."""
    for handle in handles:
        handle.flush()
        handle.close()


def descriptors() -> int:
    """Return the number of open file descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Segments:
    """500 segments."""

    params = (ENGINES,)
    param_names = ("engine",)
    timeout = 600
    work: ManySegments

    def setup(self, engine: str) -> None:
        self.work = ManySegments(engine)

    def teardown(self, engine: str) -> None:
        self.work.close()

    def track_commit(self, engine: str) -> float:
        """Return the time of a commit that makes all segments, divided by the binding's time."""
        return self.work.commit_seconds / self.work.bare_seconds()

    track_commit.unit = "ratio"  # type: ignore[attr-defined]

    def track_open(self, engine: str) -> float:
        return min(self.work.open_and_fetch()[0] for _ in range(3))

    track_open.unit = "s"  # type: ignore[attr-defined]

    def track_cold_fetch(self, engine: str) -> float:
        """Return the time of a fetch that must first open three segments."""
        return min(self.work.open_and_fetch()[1] for _ in range(3))

    track_cold_fetch.unit = "s"  # type: ignore[attr-defined]

    def track_descriptors(self, engine: str) -> int:
        return self.work.open_and_fetch()[2]

    track_descriptors.unit = "open files"  # type: ignore[attr-defined]


def text(engine: str, count: int) -> str:
    work = ManySegments(engine, count)
    opened, fetched, most = work.open_and_fetch()
    bare = work.bare_seconds()
    work.close()
    return (
        f"{engine}, {count} segments: commit {work.commit_seconds:.1f} s, bare {bare:.1f} s "
        f"({work.commit_seconds / bare:.2f}); open {opened * 1000:.0f} ms; "
        f"cold fetch of 3 {fetched * 1000:.0f} ms; {most} descriptors at most\n"
    )


if __name__ == "__main__":
    sys.stdout.write(text("rocksdb", int(sys.argv[1]) if len(sys.argv) > 1 else SEGMENTS))

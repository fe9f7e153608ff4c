"""Window and session stores, compared with the bare engine on the same rows.

Keys have 16 bytes and values 100 bytes. Rows have three headers if the format has headers. A key
has 17 windows in four segments, or five sessions in three segments.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path
from typing import Any

from kstore_core import StoreSpec, open_state, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.keys import MAX_TIME, SESSION, WINDOW, KeySchema
from kstore_core.tables import Bounds
from kstore_core.types import Windowed

from .bare_segments import BARE, Range
from .sizes import sized
from .workloads import HEADERS, VALUE, ratio, seconds, shuffled_keys

KEYS = sized(3000)
SLICE = 100
INTERVAL_MS = 300_000
BEGIN = 1_700_000_100_000
"""The begin of the first segment in ms."""

WINDOW_MS = 60_000
WINDOWS = 17
SESSION_MS = 30_000
SESSIONS_APART_MS = 150_000
SESSIONS = 5
RETENTION_MS = 6 * INTERVAL_MS

WINDOW_FORMATS = {
    "plain": stores.window,
    "timestamped": stores.timestamped_window,
    "headers": stores.timestamped_window_with_headers,
}
SESSION_FORMATS = {"plain": stores.session, "headers": stores.session_with_headers}

KINDS = (
    *(f"window {name}" for name in WINDOW_FORMATS),
    *(f"session {name}" for name in SESSION_FORMATS),
)
Keys = Sequence[bytes]
Work = Callable[[Keys], object]


class SegmentedWorkload(ABC):
    """A store with a row at each of ``times`` for each key, and a bare engine with these rows."""

    schema: KeySchema
    times: range
    """The begins of the windows or sessions in ms."""
    length_ms: int
    """The time from this begin to the time in the row's key, in ms."""

    def __init__(self, engine: str, spec: StoreSpec, count: int = KEYS) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.engine = make_engine(engine)
        self.spec = spec
        self.more: dict[str, Any] = {"headers": HEADERS} if spec.format.headers else {}
        keys = shuffled_keys(count)
        probes = random.Random(2).sample(keys, count)
        self.keys = keys
        self.probed = dict(zip(keys, random.Random(3).choices(self.times, k=count), strict=True))
        self.slices = [probes[at : at + SLICE] for at in range(0, count, SLICE)]
        self._open()
        self.put_and_commit()
        self._make_bare(engine)
        self.state.close()
        self._open()

    def _open(self) -> None:
        self.state = open_state(self.scratch / "0_0", engine=self.engine)
        self.store: Any = self.state.open(self.spec)

    def _make_bare(self, engine: str) -> None:
        make = BARE.get(engine)
        self.bare = (
            None if make is None else make(self.scratch / "bare", self.spec.format.namespace)
        )
        if self.bare is None:
            return
        table, schema, bare = self.store.table, self.schema, self.bare
        rows = [
            (segment, schema.split(key), key, value)
            for segment in table.segments
            for keys, values in table.scan(Bounds(segment_lo=segment, segment_hi=segment))
            for key, value in zip(keys, values, strict=True)
        ]
        order = {key: number for number, key in enumerate(self.keys)}
        rows.sort(key=lambda row: (row[1][1], order[row[1][0]]))  # the order of the store's writes
        self.rows = [(segment, bare.key(segment, key), value) for segment, _, key, value in rows]
        bare.put(self.rows)
        bare.settle()
        self.one = {
            key: (bare.getter(segment), bare.key(segment, row))
            for segment, (key, time, _), row, _ in rows
            if time == self.probed[key] + self.length_ms
        }
        self.ranges: dict[bytes, list[Range]] = {
            key: [
                (segment, bare.key(segment, bounds.lo or b""), bare.key(segment, bounds.hi or b""))
                for segment in table.segments
                if bounds.segment_lo <= segment <= bounds.segment_hi
            ]
            for key in self.keys
            for bounds in [schema.fetch(INTERVAL_MS, key, key, 0, MAX_TIME).bounds]
        }
        self.everything: list[Range] = [
            (segment, bare.key(segment, b""), bare.key(segment, b"\xff"))
            for segment in table.segments
        ]

    # The measured work of the store, and of the bare engine.

    @abstractmethod
    def put(self, keys: Keys) -> None:
        """Put all rows of the keys, in the order of time."""

    @abstractmethod
    def put_newest(self, key: bytes) -> None:
        """Put the newest row of a key."""

    @abstractmethod
    def get(self, keys: Keys) -> None:
        """Get one row of each key, by its exact time."""

    def put_and_commit(self) -> None:
        self.put(self.keys)
        self.state.commit({("t", 0): 1})

    def bare_put(self) -> None:
        """Put all rows, in one transaction if the binding has transactions."""
        self.bare.put(self.rows)

    def bare_put_each(self) -> None:
        """Put all rows, each in a transaction of its own."""
        self.bare.put_each(self.rows)

    def bare_get(self, keys: Keys) -> None:
        one = self.one
        for key in keys:
            get, row = one[key]
            get(row)

    def fetch(self, keys: Keys) -> None:
        """Fetch all rows of each key."""
        fetch = self.store.fetch
        for key in keys:
            for _ in fetch(key):
                pass

    def bare_fetch(self, keys: Keys) -> None:
        """Make a seek and a scan in each segment that may contain rows of the key."""
        scan, ranges = self.bare.scan, self.ranges
        for key in keys:
            scan(ranges[key])

    @abstractmethod
    def all(self) -> None:
        """Read all rows of the store."""

    def bare_all(self) -> None:
        self.bare.scan(self.everything)

    def put_each(self, keys: Keys) -> None:
        put = self.put_newest
        for key in keys:
            put(key)

    def put_and_fetch(self, keys: Keys) -> None:
        """Put a row of each key, and fetch the key after each put."""
        put, fetch = self.put_newest, self.store.fetch
        for key in keys:
            put(key)
            for _ in fetch(key):
                pass

    # Ratios to the bare engine; nan without a binding.

    def put_ratio(self, rounds: int = 5, *, each: bool = False) -> float:
        bare_put = self.bare_put_each if each else self.bare_put
        return nan if self.bare is None else ratio(self.put_and_commit, bare_put, rounds)

    def get_ratio(self, rounds: int = 10) -> float:
        return self._ratio(self.get, self.bare_get, rounds)

    def fetch_ratio(self, rounds: int = 10) -> float:
        return self._ratio(self.fetch, self.bare_fetch, rounds)

    def all_ratio(self, rounds: int = 10) -> float:
        return nan if self.bare is None else ratio(self.all, self.bare_all, rounds)

    def in_turn_ratio(self, rounds: int = 10) -> float:
        """Return the time of alternating puts and fetches, as a ratio.

        The time is divided by the time of all puts and then all fetches. The puts are not
        committed.
        """
        puts, fetches, turns = self.least([self.put_each, self.fetch, self.put_and_fetch], rounds)
        return turns / (puts + fetches)

    def _ratio(self, ours: Work, theirs: Work, rounds: int) -> float:
        if self.bare is None:
            return nan
        a, b = self.least([ours, theirs], rounds)
        return a / b

    def least(self, works: Sequence[Work], rounds: int) -> list[float]:
        """Return the least seconds of each work for all keys.

        The works alternate. For each slice of the keys, the least of ``rounds`` times counts.
        """
        sums = [0.0] * len(works)
        for keys in self.slices:
            pairs = [[seconds(lambda: work(keys)) for work in works] for _ in range(rounds)]  # noqa: B023
            for at, times in enumerate(zip(*pairs, strict=True)):
                sums[at] += min(times)
        return sums

    def close(self) -> None:
        if self.bare is not None:
            self.bare.close()
        self.state.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class WindowWorkload(SegmentedWorkload):
    """A window store of one format."""

    schema = WINDOW
    times = range(BEGIN, BEGIN + WINDOWS * WINDOW_MS, WINDOW_MS)
    length_ms = 0

    def __init__(self, engine: str, format_name: str, count: int = KEYS) -> None:
        make = WINDOW_FORMATS[format_name]
        spec = make("s", RETENTION_MS, WINDOW_MS, segment_interval_ms=INTERVAL_MS)
        super().__init__(engine, spec, count)

    def put(self, keys: Keys) -> None:
        put, more = self.store.put, self.more
        if self.spec.format.timestamped:
            for start in self.times:
                for key in keys:
                    put(key, VALUE, window_start=start, timestamp=start, **more)
        else:
            for start in self.times:
                for key in keys:
                    put(key, VALUE, window_start=start, **more)

    def put_newest(self, key: bytes) -> None:
        start = self.times[-1]
        time = {"timestamp": start} if self.spec.format.timestamped else {}
        self.store.put(key, VALUE, window_start=start, **time, **self.more)

    def get(self, keys: Keys) -> None:
        fetch_one, probed = self.store.fetch_one, self.probed
        for key in keys:
            fetch_one(key, probed[key])

    def all(self) -> None:
        for _ in self.store.all():
            pass


class SessionWorkload(SegmentedWorkload):
    """A session store of one format."""

    schema = SESSION
    times = range(BEGIN, BEGIN + SESSIONS * SESSIONS_APART_MS, SESSIONS_APART_MS)
    length_ms = SESSION_MS

    def __init__(self, engine: str, format_name: str, count: int = KEYS) -> None:
        make = SESSION_FORMATS[format_name]
        super().__init__(engine, make("s", RETENTION_MS, segment_interval_ms=INTERVAL_MS), count)

    def put(self, keys: Keys) -> None:
        put, more = self.store.put, self.more
        for start in self.times:
            for key in keys:
                put(Windowed(key, start, start + SESSION_MS), VALUE, **more)

    def put_newest(self, key: bytes) -> None:
        start = self.times[-1]
        self.store.put(Windowed(key, start, start + SESSION_MS), VALUE, **self.more)

    def get(self, keys: Keys) -> None:
        fetch_session, probed = self.store.fetch_session, self.probed
        for key in keys:
            start = probed[key]
            fetch_session(key, start, start + SESSION_MS)

    def all(self) -> None:
        for _ in self.store.find_sessions_between(None, None):
            pass


def make_workload(engine: str, kind: str, count: int = KEYS) -> SegmentedWorkload:
    """Return the workload of one of `KINDS`."""
    shape, _, name = kind.partition(" ")
    return (WindowWorkload if shape == "window" else SessionWorkload)(engine, name, count)

"""The layers of a store: a cache over hot keys, the metrics, and views of committed data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore_core import open_state
from kstore_core.discovery.registry import make_engine

from .sizes import sized
from .workloads import ENGINES, HEADERS, KEY_VALUE, RAW, VALUE, ratio, seconds

HOT_KEYS = sized(1000)
ROUNDS = 20


class HotKeys:
    """A workload that reads and writes 1,000 keys many times, with a cache or a bare engine."""

    def __init__(self, engine: str, format_name: str) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.keys = [b"%016d" % number for number in range(HOT_KEYS)]
        self.state = open_state(self.scratch / "0_0", engine=make_engine(engine))
        spec = KEY_VALUE[format_name]("s")
        self.store = self.state.open(spec.with_cache(1 << 22))
        self.metered = self.state.open(KEY_VALUE[format_name]("metered").with_metrics())
        self.bare = self.state.open(KEY_VALUE[format_name]("bare"))
        self.more: dict[str, Any] = {}
        if spec.format.timestamped:
            self.more["timestamp"] = 1_700_000_000_000
        if spec.format.headers:
            self.more["headers"] = HEADERS
        self.raw = RAW[engine](self.scratch / "raw", spec.format.namespace)
        for store in (self.store, self.metered, self.bare):
            for key in self.keys:
                store.put(key, VALUE, **self.more)
        self.state.commit()
        self.row = self.store.table.get(self.keys[0])
        for key in self.keys:
            self.raw.put(key, self.row)
        self.raw.flush()

    def close(self) -> None:
        self.raw.close()
        self.state.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def read_modify_write(self) -> None:
        """Read and write the keys through the store, and commit. All records are decoded."""
        get, put = self.store.get, self.store.put
        for _ in range(ROUNDS):
            for key in self.keys:
                put(key, get(key))
        self.state.commit()

    def raw_read_modify_write(self) -> None:
        """Read and write the same bytes through the binding, which writes each change at once."""
        get, put, row = self.raw.get, self.raw.put, self.row
        for _ in range(ROUNDS):
            for key in self.keys:
                get(key)
                put(key, row)

    def raw_in_one_transaction(self) -> None:
        """Read and write the same bytes in one transaction, if the binding has transactions."""
        row = self.row
        with self.raw.writing() as (get, put):
            for _ in range(ROUNDS):
                for key in self.keys:
                    get(key)
                    put(key, row)

    def times_faster(self, rounds: int = 3) -> float:
        """Return how many times faster the store is than the binding."""
        return 1 / ratio(self.read_modify_write, self.raw_read_modify_write, rounds)

    def metered_nanoseconds(self, name: str, rounds: int = 15) -> float:
        """Return the nanoseconds that metrics add to one operation, ``"get"`` or ``"put"``."""

        def times(store: Any) -> Callable[[], None]:
            def get() -> None:
                look_up = store.get
                for _ in range(ROUNDS):
                    for key in self.keys:
                        look_up(key)

            def put() -> None:
                write, more = store.put, self.more
                for _ in range(ROUNDS):
                    for key in self.keys:
                        write(key, VALUE, **more)

            return get if name == "get" else put

        counted, bare = times(self.metered), times(self.bare)
        pairs = [(seconds(counted), seconds(bare)) for _ in range(rounds)]
        each = min(a for a, _ in pairs) - min(b for _, b in pairs)
        return each / (ROUNDS * HOT_KEYS) * 1e9


class Cached:
    """The cache and the metrics over 1,000 hot keys of 16 bytes with values of 100 bytes."""

    params = (ENGINES, tuple(KEY_VALUE))
    param_names = ("engine", "format")
    timeout = 300

    def setup(self, engine: str, format_name: str) -> None:
        self.work = HotKeys(engine, format_name)

    def teardown(self, engine: str, format_name: str) -> None:
        self.work.close()

    def time_read_modify_write(self, engine: str, format_name: str) -> None:
        self.work.read_modify_write()

    def time_raw_read_modify_write(self, engine: str, format_name: str) -> None:
        self.work.raw_in_one_transaction()

    def track_times_faster(self, engine: str, format_name: str) -> float:
        return self.work.times_faster(1 if engine == "lmdb" else 3)

    def track_metered_get(self, engine: str, format_name: str) -> float:
        return self.work.metered_nanoseconds("get")

    def track_metered_put(self, engine: str, format_name: str) -> float:
        return self.work.metered_nanoseconds("put")


Cached.track_times_faster.unit = "times"  # type: ignore[attr-defined]
Cached.track_metered_get.unit = Cached.track_metered_put.unit = "ns"  # type: ignore[attr-defined]


class Committed:
    """The time of a view of committed data, and of a commit in a state that has such views."""

    params = ENGINES
    param_names = ("engine",)

    def setup(self, engine: str) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.state = open_state(self.scratch, engine=make_engine(engine), transactional=True)
        self.spec = KEY_VALUE["headers"]("s")
        self.store = self.state.open(self.spec)
        for number in range(10_000):
            self.store.put(b"%d" % number, VALUE, timestamp=1)
        self.state.commit()

    def teardown(self, engine: str) -> None:
        self.state.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def time_view(self, engine: str) -> None:
        with self.state.committed() as view:
            view.open(self.spec).get(b"77")

    def time_commit_of_one_row(self, engine: str) -> None:
        self.store.put(b"77", VALUE, timestamp=1)
        self.state.commit()

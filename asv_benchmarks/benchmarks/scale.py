"""The growth of times with the records of a store, the versions of a key, and the segments.

``asv_benchmarks.peer`` measures the same work on Kafka Streams, too.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from kstore_core import open_state, stores

from .sizes import sized
from .workloads import HEADERS, VALUE, seconds

ENGINE = "rocksdb"
READS = sized(20_000)


class Records:
    """A key-value store with headers."""

    params = (sized(100_000), sized(1_000_000))
    param_names = ("records",)
    timeout = 900
    scratch: Path
    state: Any
    store: Any
    keys: list[bytes]

    def setup(self, count: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.keys = [random.Random(i).randbytes(16) for i in range(count)]
        self._open()
        for i, key in enumerate(self.keys):
            self.store.put(key, VALUE, timestamp=i, headers=HEADERS)
        self.state.commit()
        self.wanted = random.Random(7).sample(self.keys, min(READS, count))

    def _open(self) -> None:
        self.state = open_state(self.scratch / "0_0", engine=ENGINE)
        self.store = self.state.open(stores.timestamped_key_value_with_headers("s"))

    def teardown(self, count: int) -> None:
        self.state.close()
        shutil.rmtree(self.scratch)

    def track_get(self, count: int) -> float:
        return (
            seconds(lambda: [self.store.get(key) for key in self.wanted]) * 1e6 / len(self.wanted)
        )

    track_get.unit = "µs"  # type: ignore[attr-defined]

    def track_scan(self, count: int) -> float:
        return seconds(lambda: sum(1 for _ in self.store.all())) * 1e6 / count

    track_scan.unit = "µs per row"  # type: ignore[attr-defined]

    def track_open(self, count: int) -> float:
        self.state.close()
        return seconds(self._open)

    track_open.unit = "s"  # type: ignore[attr-defined]

    def track_disk(self, count: int) -> int:
        self.state.close()
        size = sum(path.stat().st_size for path in self.scratch.rglob("*") if path.is_file())
        self._open()
        return size

    track_disk.unit = "bytes"  # type: ignore[attr-defined]


class AsOf:
    """Reads as of random times from a store with 300,000 versions in all."""

    params = ([(10, 5), (100, 5), (1000, 5), (50, 50), (500, 500)],)
    param_names = ("versions of a key, segments",)
    timeout = 900
    versions = sized(300_000, least=1000)
    interval_ms = 60_000

    def setup(self, shape: tuple[int, int]) -> None:
        per_key, segments = shape
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.keys = [b"%016d" % i for i in range(max(self.versions // per_key, 1))]
        self.span = segments * self.interval_ms
        self.state = open_state(self.scratch / "0_0", engine=ENGINE)
        self.store = self.state.open(
            stores.versioned_key_value(
                "s", history_retention_ms=2 * self.span, segment_interval_ms=self.interval_ms
            )
        )
        for version in range(per_key):
            for key in self.keys:
                self.store.put(key, VALUE, timestamp=self.span * version // per_key)
        self.state.commit()
        time.sleep(0.5)

    def teardown(self, shape: tuple[int, int]) -> None:
        self.state.close()
        shutil.rmtree(self.scratch)

    def track_get_as_of(self, shape: tuple[int, int]) -> float:
        source = random.Random(9)
        wanted = [(source.choice(self.keys), source.randrange(self.span)) for _ in range(READS)]
        took = seconds(lambda: [self.store.get(key, as_of=at) for key, at in wanted])
        return took * 1e6 / READS

    track_get_as_of.unit = "µs"  # type: ignore[attr-defined]

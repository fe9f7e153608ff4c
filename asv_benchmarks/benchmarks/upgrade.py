"""Stores in the middle of an upgrade: a lookup beside one in a store of one format, and the rest.

The rows are timestamped; half of them have moved on to headers. A missing key is looked up in both
places, an old row in both and converted.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class, installed_engines, make_engine
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.types import ValueAndTimestamp, ValueTimestampHeaders

from .sizes import sized
from .workloads import VALUE, ratio, seconds, shuffled_keys

COUNT = sized(50_000)
PROBES = ("new", "old", "missing")
TIMESTAMPED = stores.timestamped_key_value
HEADERS = stores.timestamped_key_value_with_headers


def engines() -> tuple[str, ...]:
    """The engines that are installed and keep their rows, and memory."""
    names = sorted({engine.name for engine in installed_engines()})
    return tuple(n for n in names if n == "memory" or engine_class(n).capabilities.persistent)


class UpgradeWorkload:
    """The same rows in a store that is half upgraded, in one that always had headers, and in one
    whose upgrade is timed."""

    def __init__(self, engine: str, count: int) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.root = self.scratch / "0_0"
        self.engine = make_engine(engine)
        keys = shuffled_keys(count)
        new, old = keys[: count // 2], keys[count // 2 :]
        with open_state(self.root, engine=self.engine) as state:
            for name in ("half", "rest"):
                state.open(TIMESTAMPED(name)).put_all(
                    (key, ValueAndTimestamp(VALUE, 1)) for key in keys
                )
            state.open(HEADERS("single")).put_all(
                (key, ValueTimestampHeaders(VALUE, 1, [])) for key in keys
            )
        with open_state(self.root, engine=self.engine) as state:
            state.open(HEADERS("half")).get_many(new)
        self.count = count
        self.probes = {"new": new, "old": old, "missing": [key + b"?" for key in old]}

    def get_ratio(self, probes: str) -> float:
        """Seconds of lookups that move nothing, over those of a store in one format."""
        keys = self.probes[probes]
        with open_state(self.root, engine=self.engine, migrate_on_read=False) as state:
            half, single = state.open(HEADERS("half")), state.open(HEADERS("single"))
            return ratio(looking_up(half.get, keys), looking_up(single.get, keys))

    def drain(self) -> float:
        """Rows a second; once."""
        return self.count / seconds(lambda: upgrade(self.root, "rest", engine=self.engine))

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def looking_up(get: Callable[[bytes], object], keys: list[bytes]) -> Callable[[], None]:
    def work() -> None:
        for key in keys:
            get(key)

    return work


class Lookups:
    """A get of a store in two formats over one of a store in one."""

    params = (engines(), PROBES)
    param_names = ("engine", "row")
    timeout = 300
    unit = "ratio"

    def setup(self, engine: str, probes: str) -> None:
        self.work = UpgradeWorkload(engine, COUNT)

    def teardown(self, engine: str, probes: str) -> None:
        self.work.close()

    def track_dual_get(self, engine: str, probes: str) -> float:
        return self.work.get_ratio(probes)


class Drain:
    """``kstore upgrade``: rows a second."""

    params = (engines(),)
    param_names = ("engine",)
    timeout = 300
    unit = "rows/s"

    def setup(self, engine: str) -> None:
        self.work = UpgradeWorkload(engine, 4 * COUNT)

    def teardown(self, engine: str) -> None:
        self.work.close()

    def track_drain(self, engine: str) -> float:
        return self.work.drain()

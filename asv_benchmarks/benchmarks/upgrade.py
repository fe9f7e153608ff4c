"""Stores in the middle of an upgrade: lookups, and the rest of the upgrade.

Lookups are compared with those in a store of one format. The rows have timestamps, and half of them
were already upgraded to headers. A lookup of a missing key reads both tables. A lookup of an old
row reads both tables, and converts the row.
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
    """Return the names of the persistent engines that are installed, and ``memory``."""
    names = sorted({engine.name for engine in installed_engines()})
    return tuple(n for n in names if n == "memory" or engine_class(n).capabilities.persistent)


class UpgradeWorkload:
    """Three stores with the same rows, for lookups and for an upgrade.

    The store ``half`` is half upgraded, ``single`` has always had headers, and ``rest`` is upgraded
    by :meth:`drain`.
    """

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
        """Return the time of lookups in ``half``, which move no row, over that in ``single``."""
        keys = self.probes[probes]
        with open_state(self.root, engine=self.engine, migrate_on_read=False) as state:
            half, single = state.open(HEADERS("half")), state.open(HEADERS("single"))
            return ratio(looking_up(half.get, keys), looking_up(single.get, keys))

    def drain(self) -> float:
        """Upgrade the store ``rest``, and return the rows per second. This works only once."""
        return self.count / seconds(lambda: upgrade(self.root, "rest", engine=self.engine))

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def looking_up(get: Callable[[bytes], object], keys: list[bytes]) -> Callable[[], None]:
    def work() -> None:
        for key in keys:
            get(key)

    return work


class Lookups:
    """The time of a get in a store of two formats, divided by the time in a store of one format."""

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
    """The rows per second of ``kstore upgrade``."""

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

"""Migrations of stores to another format or engine, with the comparison of all records.

The figures are the rows per second, and the time divided by the time of putting the same rows.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from kstore_core import open_state, stores
from kstore_core.discovery.registry import engine_class, installed_engines
from kstore_core.maintenance.migrate import migrate
from kstore_core.types import ValueTimestampHeaders

from .sizes import sized
from .workloads import VALUE, seconds, shuffled_keys

COUNT = sized(200_000)
WAYS = ("timestamped", "plain", "other engine")
HEADERS = [("trace-id", b"0123456789"), ("source", b"app"), ("none", None)]
SPEC = stores.timestamped_key_value_with_headers("s")


def engines() -> tuple[str, ...]:
    """Return the names of the persistent engines."""
    names = sorted({engine.name for engine in installed_engines()})
    return tuple(name for name in names if engine_class(name).capabilities.persistent)


def migrated(engine: str, way: str, count: int) -> tuple[float, float]:
    """Return the seconds of a put of all rows with its commit, and of the store's migration."""
    scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
    root = scratch / "0_0"
    record = ValueTimestampHeaders(VALUE, 1, HEADERS)
    keys = shuffled_keys(count)
    to: dict[str, Any] = {"to": way, "lossy": True}
    if way == "other engine":
        to = {"engine": next(name for name in engines() if name != engine)}
    try:
        with open_state(root, engine=engine) as state:
            store = state.open(SPEC)

            def put() -> None:
                store.put_all((key, record) for key in keys)
                state.commit()

            puts = seconds(put)
        return puts, seconds(lambda: migrate(root, "s", **to))
    finally:
        shutil.rmtree(scratch)


class Migrate:
    """Migrations of rows with values of 100 bytes and three headers."""

    params = (engines(), WAYS)
    param_names = ("engine", "way")
    timeout = 120

    def setup(self, engine: str, way: str) -> None:
        if way == "other engine" and len(engines()) < 2:
            raise NotImplementedError("there is no other engine")

    def track_over_puts(self, engine: str, way: str) -> float:
        pairs = [migrated(engine, way, COUNT) for _ in range(3)]
        return min(took for _, took in pairs) / min(puts for puts, _ in pairs)

    track_over_puts.unit = "ratio"  # type: ignore[attr-defined]

    def track_rows(self, engine: str, way: str) -> float:
        return COUNT / min(migrated(engine, way, COUNT)[1] for _ in range(3))

    track_rows.unit = "rows/s"  # type: ignore[attr-defined]

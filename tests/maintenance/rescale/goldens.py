"""Golden task directories as applications with one task, and their specs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kstore_core import stores
from kstore_core.spec import StoreSpec
from tests.support.golden import unpack

WINDOWS = {"retention_ms": 300_000, "window_size_ms": 10_000, "segment_interval_ms": 150_000}
SESSIONS = {"retention_ms": 300_000, "segment_interval_ms": 150_000}
SPECS = {
    "kv_plain": stores.key_value("s"),
    "kv_timestamped": stores.timestamped_key_value("s"),
    "kv_headers": stores.timestamped_key_value_with_headers("s"),
    "kv_half_migrated_timestamped_to_headers": stores.timestamped_key_value_with_headers("s"),
    "versioned": stores.versioned_key_value("s", 60_000, 10_000),
    "window_timestamped": stores.timestamped_window("s", **WINDOWS),
    "window_headers": stores.timestamped_window_with_headers("s", **WINDOWS),
    "window_half_migrated_timestamped_to_headers": stores.timestamped_window_with_headers(
        "s", **WINDOWS
    ),
    "session_headers": stores.session_with_headers("s", **SESSIONS),
}


def application(name: str, path: Path) -> tuple[Path, StoreSpec]:
    task = unpack(name, path / "unpacked")
    (path / "app").mkdir()
    task.rename(path / "app" / "0_0")
    return path / "app", replace(SPECS[name], name=name)

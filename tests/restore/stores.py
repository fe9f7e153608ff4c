"""Writing to a store of any kind, and all that it then answers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kstore_core import Windowed
from kstore_core.changelog import ChangelogDirectory, FileChangelog, changelog_topic
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import Kind

APPLICATION = "app"
RETENTION_MS = 30
INTERVAL_MS = 7

Op = tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]]]


def spec_of(kind: Kind) -> StoreSpec:
    return (
        kind.spec("s") if kind.shape == "key_value" else kind.spec("s", RETENTION_MS, INTERVAL_MS)
    )


def logs(root: Path) -> ChangelogDirectory:
    return ChangelogDirectory(root, application_id=APPLICATION, partition=0)


def open_log(root: Path) -> FileChangelog:
    """The log of the store, to be read."""
    return FileChangelog(root, changelog_topic(APPLICATION, "s"), read_only=True)


def write(kind: Kind, store: Any, ops: Iterable[Op]) -> None:
    for key, data, time, headers in ops:
        record = None if data is None else kind.record(data, time, headers)
        if kind.shape == "versioned":
            more = {"headers": headers} if kind.format.headers and data is not None else {}
            store.put(key, data, timestamp=time, **more)
        elif kind.shape == "session":
            store.put(Windowed(key, time // 2, time), kind.value(record))
        elif kind.shape == "window":
            store.put(key, kind.value(record), window_start=time)
        elif record is None:
            store.delete(key)
        else:
            store.put(key, kind.value(record))


def contents(kind: Kind, store: Any) -> object:
    """Everything that a store answers."""
    if kind.shape != "versioned":
        rows = store.fetch_range(None, None) if kind.shape == "session" else store.all()
        return store.stream_time, [(key, kind.read(value)) for key, value in rows]
    keys = sorted({key for key, _ in store.all()} | {b"a", b"a\x00", b"b", b"\xff" * 9})
    return (
        store.stream_time,
        [(key, [_version(version) for version in store.history(key)]) for key in keys],
        [
            (key, time, _version(store.get(key, as_of=time)))
            for key in keys
            for time in range(max(0, store.clock.horizon), 92, 3)
        ],
    )


def _version(record: Any) -> object:
    if record is None:
        return None
    headers = list(getattr(record, "headers", ()))
    return record.value, record.timestamp, record.valid_to, headers

"""Functions that read and write a store of any kind, for tests of all kinds.

The functions use every store as a mapping of keys to records. In a window or session store each key
has a single window or session, which the bytes of the key determine. All rows are in a few
segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import Kind, Record
from kstore_core.types import Windowed

__all__ = ["delete", "get", "get_many", "items", "keys", "put", "scan", "spec"]

RETENTION_MS, INTERVAL_MS = 86_400_000, 100


def spec(kind: Kind, name: str = "s") -> StoreSpec:
    """Return the spec of a store of the given kind."""
    if kind.shape == "key_value":
        return kind.spec(name)
    return kind.spec(name, RETENTION_MS, INTERVAL_MS)


def put(kind: Kind, store: Any, key: bytes, record: Record) -> None:
    """Set the record of a key. In a versioned store the record is valid from its timestamp on."""
    if kind.shape == "versioned":
        headers = record.headers if kind.format.headers else ()
        store.put(key, record.data, timestamp=record.timestamp, headers=headers)
    elif kind.shape == "window":
        store.put(key, kind.value(record), window_start=_session(key).start)
    elif kind.shape == "session":
        store.put(_session(key), kind.value(record))
    else:
        store.put(key, kind.value(record))


def delete(kind: Kind, store: Any, key: bytes, timestamp: int) -> None:
    """Delete a key. In a versioned store the key is deleted from ``timestamp`` (ms) on."""
    if kind.shape == "versioned":
        store.delete(key, timestamp=timestamp)
    elif kind.shape == "window":
        store.put(key, None, window_start=_session(key).start)
    elif kind.shape == "session":
        store.remove(_session(key))
    else:
        store.delete(key)


def get(kind: Kind, store: Any, key: bytes) -> Record | None:
    """Return the latest record of a key, or None if the key has no record."""
    if kind.shape == "window":
        return kind.read(store.fetch_one(key, _session(key).start))
    if kind.shape == "session":
        return kind.read(store.fetch_session(key, _session(key).start, _session(key).end))
    return kind.read(store.get(key))


def get_many(kind: Kind, store: Any, keys: Iterable[bytes]) -> list[Record | None]:
    """Return the records of many keys.

    Call ``get_many`` if the shape has this method, otherwise ``get`` for each key.
    """
    if kind.shape in ("window", "session"):
        return [get(kind, store, key) for key in keys]
    return list(map(kind.read, store.get_many(keys)))


def scan(kind: Kind, store: Any, *, reverse: bool = False) -> Any:
    """Return a scan of all rows."""
    if kind.shape == "session":
        return store.fetch_range(None, None, reverse=reverse)
    return store.all(reverse=reverse)


def items(kind: Kind, store: Any, *, reverse: bool = False) -> list[tuple[bytes, Record | None]]:
    """Return every key and its record, sorted by key."""
    found = [(key, kind.read(value)) for key, value in scan(kind, store, reverse=reverse)]
    if kind.shape in ("window", "session"):
        times = [(windowed.start, windowed.key) for windowed, _ in found]
        assert all(_session(key).start == start for start, key in times), "each key has its window"
        bare = [(windowed.key, record) for windowed, record in found]
        return sorted(bare, key=lambda item: item[0], reverse=reverse)
    return found


def keys(kind: Kind, store: Any) -> list[bytes]:
    """Return the sorted keys of a store."""
    return [key for key, _ in items(kind, store)]


def _session(key: bytes) -> Windowed[bytes]:
    """Return the session of a key in a session store.

    In a window store, the window of the key starts at the same time as this session.
    """
    start = 50 + INTERVAL_MS * (sum(key) % 3)
    return Windowed(key, start, start + 5)

"""Stores of every shape, filled for queries."""

from __future__ import annotations

from typing import Any

from kstore_core import Windowed
from kstore_core.query import (
    ReadOnlyRecord,
)
from kstore_core.testing.kinds import Kind

RETENTION, INTERVAL = 100_000, 100


KEYS = [b"%02d" % number for number in range(20)]


HEADERS = [("h", b"1"), ("h", None)]


def spec_of(kind: Kind) -> Any:
    times = () if kind.shape == "key_value" else (RETENTION, INTERVAL)
    return kind.spec("s", *times)


def fill(kind: Kind, store: Any, data: bytes = b"v") -> None:
    for number, key in enumerate(KEYS):
        record = kind.record(data + key, number * 37, HEADERS)
        if kind.shape == "versioned":
            more = {"headers": HEADERS} if kind.format.headers else {}
            for add in range(0, 250, 50):
                store.put(key, b"%d" % add, timestamp=number * 37 + add, **more)
        elif kind.shape == "window":
            for start in (number * 37, number * 37 + 50):
                store.put(key, kind.value(record), window_start=start)
        elif kind.shape == "session":
            store.put(Windowed(key, number * 37 - number, number * 37), kind.value(record))
        else:
            store.put(key, kind.value(record))


def record(key: Any, value: Any) -> ReadOnlyRecord[Any, Any]:
    return ReadOnlyRecord(key, value.value, value.timestamp, value.headers)

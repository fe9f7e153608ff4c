"""Stores whose reads are filtered: of each shape, with each type of keys."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core import serdes, stores
from kstore_core.codec import Headers, partition
from kstore_core.types import Windowed
from tests.spark.support.by_hand import publish

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

__all__ = ["SHARDS", "STORES", "TEXTS", "Fill", "options_of", "publish_all"]

SHARDS = 3
TEXTS = ["", "a", "ab", "abc", "b", "é", "k1", "k2", "k3", "x" * 40]
NUMBERS = [-(2**63), -1, 0, 1, 7, 2**31, 2**63 - 1]
BYTES = [b"", b"\0", b"a", b"ab", b"\xff", b"\xff\xff", b"k1"]
FLOATS = [-1.5, 0.0, 2.0, float("inf")]


def put_versions(store: Any, keys: list[Any], dice: random.Random) -> None:
    for time in sorted(dice.randrange(1000) for _ in range(60)):
        value = None if dice.random() < 0.2 else b"%d" % time
        store.put(dice.choice(keys), value, timestamp=time, headers=[("n", None)])


def put_latest(store: Any, keys: list[Any], dice: random.Random) -> None:
    for key in keys:
        if dice.random() < 0.8:
            store.put(key, b"v", timestamp=dice.randrange(100))


def put_windows(store: Any, keys: list[Any], dice: random.Random) -> None:
    for _ in range(60):
        time = dice.randrange(1000)
        store.put(dice.choice(keys), b"w", window_start=time, timestamp=time, headers=[])


def put_sessions(store: Any, keys: list[Any], dice: random.Random) -> None:
    for _ in range(60):
        start = dice.randrange(1000)
        store.put(Windowed(dice.choice(keys), start, start + dice.randrange(90)), b"s")


Fill = Callable[[Any, list[Any], random.Random], None]
VERSIONED = stores.versioned_key_value_with_headers
STORES: list[tuple[StoreSpec, list[Any], Fill, dict[str, str]]] = [
    (VERSIONED("texts", 300, 60, key=serdes.UTF8), TEXTS, put_versions, {"history": "true"}),
    (VERSIONED("longs", 600, 60, key=serdes.INT64), NUMBERS, put_versions, {"history": "true"}),
    (VERSIONED("latest", 300, 60), BYTES, put_versions, {}),
    (VERSIONED("as-of", 500, 60), BYTES, put_versions, {"as_of": "700"}),
    (
        VERSIONED("ranges", 300, 60, key=serdes.UTF8),
        TEXTS,
        put_versions,
        {"history": "true", "from": "640", "to": "900"},
    ),
    (VERSIONED("prefixed", 300, 60, key=serdes.UTF8), TEXTS, put_versions, {"prefix": "a"}),
    (stores.timestamped_key_value("floats", key=serdes.FLOAT64), FLOATS, put_latest, {}),
    (stores.timestamped_key_value("json", key=serdes.JSON), TEXTS, put_latest, {}),
    (
        stores.timestamped_key_value("two", key=serdes.UTF8),
        TEXTS,
        put_latest,
        {"keys": '["a", "k1", "k2"]'},
    ),
    (
        stores.timestamped_window_with_headers(
            "windows", 500, 30, segment_interval_ms=60, key=serdes.UTF8
        ),
        TEXTS,
        put_windows,
        {},
    ),
    (stores.session("sessions", 500, 60, key=serdes.UTF8), TEXTS, put_sessions, {"to": "950"}),
]


def raw_key(spec: StoreSpec, key: Any) -> bytes:
    raw = spec.key.serialize(key, Headers())
    assert raw is not None
    return raw


def fill_of(spec: StoreSpec, keys: list[Any], put: Fill) -> Callable[[Any, int], None]:
    def fill(store: Any, shard: int) -> None:
        raw = [(key, raw_key(spec, key)) for key in keys]
        here = [key for key, data in raw if partition(data, SHARDS) == shard]
        if here:
            put(store, here, random.Random(shard))

    return fill


def publish_all(base: Path) -> dict[str, Path]:
    """Publish the stores below a directory, and return their roots by name."""
    for spec, keys, put, _ in STORES:
        fill = fill_of(spec, keys, put)
        publish(base / spec.name, spec, fill, partitions=SHARDS, engine="lmdb")
    return {spec.name: base / spec.name for spec, *_ in STORES}


def options_of(name: str) -> dict[str, str]:
    """Return the options with which a store is read."""
    return next(options for spec, *_, options in STORES if spec.name == name)

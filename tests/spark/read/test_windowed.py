"""Windows and sessions as columns: every kind of store, against what the store itself answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kstore_core import Windowed, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import UnsupportedError
from kstore_core.spark.root.root import Root
from tests.spark.support.by_hand import publish, rows_of
from tests.spark.support.plans import plan_store

SHARDS, SIZE, RETENTION, INTERVAL = 2, 30, 400, 100
WINDOW = ("s", RETENTION, SIZE)
KEYS = [f"k{number}" * (1 + number % 2) for number in range(6)]
TEXT: dict[str, Any] = {"key": serdes.UTF8, "value": serdes.UTF8}
WINDOWS = {
    "plain": stores.window(*WINDOW, segment_interval_ms=INTERVAL, **TEXT),
    "timestamped": stores.timestamped_window(*WINDOW, segment_interval_ms=INTERVAL, **TEXT),
    "headers": stores.timestamped_window_with_headers(
        *WINDOW, segment_interval_ms=INTERVAL, **TEXT
    ),
    "by_time": stores.timestamped_window_with_headers(
        *WINDOW, segment_interval_ms=INTERVAL, time_ordered=True, indexed=False, **TEXT
    ),
    "indexed": stores.timestamped_window(
        *WINDOW, segment_interval_ms=INTERVAL, time_ordered=True, indexed=True, **TEXT
    ),
}
SESSIONS = {
    "plain": stores.session("s", RETENTION, INTERVAL, **TEXT),
    "headers": stores.session_with_headers("s", RETENTION, INTERVAL, **TEXT),
    "by_time": stores.session("s", RETENTION, INTERVAL, time_ordered=True, indexed=False, **TEXT),
    "indexed": stores.session_with_headers(
        "s", RETENTION, INTERVAL, time_ordered=True, indexed=True, **TEXT
    ),
}
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"from_ts": 900},
    {"to_ts": 850},
    {"from_ts": 870, "to_ts": 871},
    {"from_ts": 2_000},
    {"to_ts": -5},
    {"keys": [b"k0", b"k1k1", b"none"]},
    {"keys": [b"k2"], "from_ts": 700, "to_ts": 900},
    {"prefix": b"k1"},
    {"prefix": b"k1k", "from_ts": 800},
    {"prefix": b""},
    {"prefix": b"\xff"},
]


def put_all(store: Any, shard: int, **extras: Any) -> list[dict[str, Any]]:
    """Put seeded records of a shard's keys; gives what can still be seen of them."""
    dice = random.Random(shard)
    kept: dict[tuple[str, int, int], dict[str, Any]] = {}
    session = store.spec.shape == "session"
    for number in range(300):
        key, start = dice.choice(KEYS), number * 3 + dice.randrange(100)
        if partition(key.encode(), SHARDS) != shard:
            continue
        end = start + (dice.randrange(60) if session else SIZE)
        value = None if dice.random() < 0.1 else f"v{number}"
        headers = [("n", b"%d" % number), ("none", None)]
        given: dict[str, Any] = {"headers": headers} if store.spec.format.headers else {}
        if session:
            store.put(Windowed(key, start, end), value, **given)
        elif store.spec.format.timestamped:
            store.put(key, value, window_start=start, timestamp=number, **given)
        else:
            store.put(key, value, window_start=start)
        row = {"key": key, f"{store.spec.shape}_start": start, f"{store.spec.shape}_end": end}
        row |= {"value": value}
        if store.spec.format.timestamped:
            row["timestamp"] = number
        if store.spec.format.headers:
            row["headers"] = [{"key": name, "value": data} for name, data in headers]
        row["partition"] = shard
        kept[key, start, end] = row
    seen = {(item.key, item.start, item.end) for item, _ in store_all(store)}
    return [row for place, row in kept.items() if row["value"] is not None and place in seen]


def store_all(store: Any) -> Any:
    return store.fetch_range(None, None) if store.spec.shape == "session" else store.all()


def selected(row: dict[str, Any], asked: dict[str, Any], shape: str) -> bool:
    """Whether a record is one of those asked for, in plain words."""
    key = row["key"].encode()
    if "keys" in asked and key not in asked["keys"]:
        return False
    if "prefix" in asked and not key.startswith(asked["prefix"]):
        return False
    first, last = asked.get("from_ts", -(2**62)), asked.get("to_ts", 2**62)
    start, end = row[f"{shape}_start"], row[f"{shape}_end"]
    moments = range(start, end + 1 if shape == "session" else end)  # a window's end is exclusive
    return any(first <= moment <= last for moment in moments)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr(list(row.values())[:3]))


EACH = [
    *(("rocksdb", "window", name) for name in WINDOWS),
    *(("rocksdb", "session", name) for name in SESSIONS),
    *(("lmdb", "window", name) for name in ("headers", "indexed")),
    ("lmdb", "session", "by_time"),
]


@pytest.mark.parametrize(("engine", "shape", "name"), EACH)
def test_every_question_of_every_kind(root: Path, engine: str, shape: str, name: str) -> None:
    spec = (WINDOWS if shape == "window" else SESSIONS)[name]
    model: list[dict[str, Any]] = []
    manifest = publish(
        root, spec, lambda store, shard: model.extend(put_all(store, shard)), engine=engine
    )
    home = Root.at(root)
    for asked in QUESTIONS:
        plan = plan_store(home, manifest, spec, timestamps="millis", **asked)
        wanted = [row for row in model if selected(row, asked, spec.shape)]
        found = rows_of(plan)
        assert in_order(found) == in_order(wanted), asked
    assert model
    assert list(model[0]) == plan.task.schema.names


def test_duplicates_are_numbered(root: Path) -> None:
    spec = stores.window("s", RETENTION, SIZE, retain_duplicates=True, **TEXT)

    def fill(store: Any, shard: int) -> None:
        if shard == 0:
            for number in range(5):
                store.put("k", f"v{number}", window_start=7 + number // 3)

    manifest = publish(root, spec, fill)
    rows = rows_of(plan_store(Root.at(root), manifest, spec, timestamps="millis"))
    assert [(row["window_start"], row["value"]) for row in rows] == [
        (7, "v0"), (7, "v1"), (7, "v2"), (8, "v3"), (8, "v4")
    ]  # fmt: skip
    assert len({(row["window_start"], row["sequence"]) for row in rows}) == 5
    assert list(rows[0]) == ["key", "window_start", "window_end", "sequence", "value", "partition"]


def test_a_window_that_never_ends(root: Path) -> None:
    """The end of a window is at most the last time that there is."""
    spec = stores.window("s", 2**62, 2**62, segment_interval_ms=2**61, **TEXT)
    last = 2**63 - 1

    def fill(store: Any, shard: int) -> None:
        store.put("k", "v", window_start=last - 5)

    manifest = publish(root, spec, fill, partitions=1)
    (row,) = rows_of(plan_store(Root.at(root), manifest, spec, timestamps="millis"))
    assert (row["window_start"], row["window_end"]) == (last - 5, last)


@pytest.mark.parametrize("question", [{"as_of": 5}, {"history": True}])
def test_windows_have_no_history(root: Path, question: dict[str, Any]) -> None:
    spec = WINDOWS["plain"]
    manifest = publish(root, spec, lambda store, shard: None)
    with pytest.raises(UnsupportedError, match="'plain', which has no history"):
        plan_store(Root.at(root), manifest, spec, **question)

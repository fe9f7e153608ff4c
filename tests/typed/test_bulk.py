"""Puts of many rows are the puts of each, in their order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.errors import SpecError, UncommittedLimitError
from kstore_core.typed import bulk

RETENTION = {"retention_ms": 500}
HISTORY = {"history_retention_ms": 500, "segment_interval_ms": 100}
WINDOWS = {**RETENTION, "window_size_ms": 50}

SPECS = {
    "plain": lambda: stores.key_value("s"),
    "cached": lambda: stores.key_value("s").with_cache(),
    "numbers": lambda: stores.timestamped_key_value("s", key=serdes.INT64, value=serdes.FLOAT64),
    "timestamped": lambda: stores.timestamped_key_value("s"),
    "headers": lambda: stores.timestamped_key_value_with_headers("s", value=serdes.UTF8),
    "versioned": lambda: stores.versioned_key_value("s", **HISTORY),
    "versioned_headers": lambda: stores.versioned_key_value_with_headers("s", **HISTORY),
    "window": lambda: stores.window("s", **WINDOWS),
    "window_headers": lambda: stores.timestamped_window_with_headers("s", **WINDOWS),
    "duplicates": lambda: stores.window("s", retain_duplicates=True, **WINDOWS),
    "session": lambda: stores.session("s", **RETENTION),
    "session_headers": lambda: stores.session_with_headers("s", **RETENTION),
}


def rows_of(spec: Any, seed: int, count: int = 300) -> list[dict[str, Any]]:
    generator = random.Random(seed)
    rows = []
    for number in range(count):
        start = max(0, 5 * number - generator.randrange(600))
        key: Any = b"k%d" % generator.randrange(9)
        value: Any = b"v%d" % number
        if spec.key is serdes.INT64:
            key, value = generator.randrange(9), float(number)
        elif spec.value is serdes.UTF8:
            value = f"vé{number}"
        rows.append(
            {
                "key": key,
                "value": None if generator.random() < 0.2 else value,
                "timestamp": start,
                "headers": [("h", b"%d" % number), ("n", None)][: generator.randrange(3)],
                "start": start,
                "end": start + generator.randrange(40),
            }
        )
    return rows


def column(spec: Any, rows: list[dict[str, Any]], name: str) -> pa.Array:
    given = [row[name] for row in rows]
    if name == "headers":
        pairs = [[{"key": key, "value": value} for key, value in row] for row in given]
        return pa.array(pairs, headers_type())
    types = {"key": spec.key.arrow_type, "value": spec.value.arrow_type}
    return pa.array(given, types.get(name, pa.int64()))


def names_of(spec: Any) -> tuple[str, ...]:
    times = {"window": ("start",), "session": ("start", "end")}.get(spec.shape, ())
    return bulk.columns_of_format(spec, *times)


def put_each(store: Any, rows: list[dict[str, Any]]) -> None:
    names = names_of(store.spec)
    for row in rows:
        more = {name: row[name] for name in ("timestamp", "headers") if name in names}
        if store.spec.shape == "window":
            more["window_start"] = row["start"]
        if store.spec.shape == "session":
            session = Windowed(row["key"], row["start"], row["end"])
            store.put(session, row["value"], **more)
        else:
            store.put(row["key"], row["value"], **more)


def put_columns(store: Any, rows: list[dict[str, Any]], way: str) -> None:
    spec = store.spec
    names = names_of(spec)
    table = pa.table({name: column(spec, rows, name) for name in names})
    if way == "table":
        store.put_arrow(table)
    elif way == "batch":
        store.put_arrow(table.to_batches()[0])
    else:
        order = [name for name in ("key", "value", "start", "end", "timestamp") if name in names]
        given = [[row[name] for row in rows] for name in order]
        headers = [row["headers"] for row in rows] if "headers" in names else None
        store.put_many(*given, headers=headers)


def contents(store: Any) -> list[Any]:
    if store.spec.shape == "versioned":
        keys = [key for key, _ in store.range(None, None)]
        return [(key, list(store.history(key))) for key in keys]
    return list(scan_of(store))


def scan_of(store: Any) -> Any:
    if store.spec.shape == "session":
        return store.fetch_range(None, None)
    return store.range(None, None) if store.spec.shape == "versioned" else store.all()


@pytest.mark.parametrize("way", ["table", "batch", "lists"])
@pytest.mark.parametrize("kind", SPECS)
def test_they_are_the_puts_of_each(
    tmp_path: Any, kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "CHUNK_ROWS", 37)
    spec = SPECS[kind]()
    found = []
    for name, put in (("each", put_each), ("many", lambda s, r: put_columns(s, r, way))):
        with open_state(tmp_path / name, engine="memory") as state:
            store = state.open(spec)
            for seed in range(3):
                put(store, rows_of(spec, seed))
            late = getattr(store, "late", None)
            found.append((contents(store), store.stream_time, late))
    assert found[0] == found[1]
    assert found[0][0]


@pytest.mark.parametrize("kind", SPECS)
def test_a_scans_table_can_be_put(tmp_path: Any, kind: str) -> None:
    spec = SPECS[kind]()
    with open_state(tmp_path / "one", engine="memory") as state:
        store = state.open(spec)
        put_each(store, rows_of(spec, 1))
        table = scan_of(store).to_arrow()
    with open_state(tmp_path / "two", engine="memory") as state:
        store = state.open(spec)
        store.put_arrow(table)
        assert scan_of(store).to_arrow().equals(table)


def test_a_record_gives_the_time_and_the_headers(tmp_path: Any) -> None:
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(SPECS["headers"]())
        keys, values = pa.array([b"a", b"b"]), pa.array(["1", "2"])
        with state.record(topic="in", partition=0, offset=7, timestamp=50, headers=[("t", b"x")]):
            store.put_many(keys, values)
        assert {(r.timestamp, tuple(r.headers)) for _, r in store.all()} == {(50, (("t", b"x"),))}
        assert store.position.get("in") == {0: 7}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((pa.array([b"a", None]), pa.array(["1", "2"]), pa.array([1, 2])), TypeError),
        (
            (pa.array([b"a", b"b"]), pa.array(["1", "2"]), pa.array([1, None])),
            (TypeError, ValueError),
        ),
        ((pa.array([b"a", b"b"]), pa.array(["1"]), pa.array([1, 2])), ValueError),
        ((pa.array([b"a", b"b"]), pa.array(["1", "2"]), pa.array([1])), ValueError),
        ((pa.array([b"a", b"b"]), pa.array([1, 2]), pa.array([1, 2])), TypeError),
        (([b"a", b"b"], ["1", 2], [1, 2]), (TypeError, AttributeError)),
        (([b"a", b"b"], ["1", "2"], None), TypeError),
    ],
)
def test_bad_columns_put_nothing(tmp_path: Any, arguments: Any, error: Any) -> None:
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(SPECS["headers"]())
        with pytest.raises(error):
            store.put_many(*arguments)
        assert list(store.all()) == []


@pytest.mark.parametrize("kind", ["window", "session", "versioned"])
def test_bad_times_put_nothing(tmp_path: Any, kind: str) -> None:
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(SPECS[kind]())
        times: list[Any] = [[5, -1]] if kind != "session" else [[5, 9], [6, 8]]
        for wrap in (list, pa.array):
            with pytest.raises(ValueError, match=r"negative|lies before"):
                store.put_many([b"a", b"b"], [b"1", b"2"], *map(wrap, times))
        with pytest.raises(TypeError):
            store.put_many([b"a"], [b"1"], *([pa.array([None], pa.int64())] * len(times)))
        assert contents(store) == []


def test_columns_are_named(tmp_path: Any) -> None:
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(SPECS["plain"]())
        with pytest.raises(SpecError, match=r"has the column 'timestamp', which .* key, value\."):
            store.put_arrow(pa.table({"key": [b"a"], "value": [b"1"], "timestamp": [1]}))
        with pytest.raises(SpecError, match=r"has no column 'value', which .* the columns key\."):
            store.put_arrow(pa.table({"key": [b"a"]}))


def test_a_limit_is_kept(tmp_path: Any) -> None:
    with open_state(
        tmp_path, engine="memory", transactional=True, uncommitted_max_bytes=1000
    ) as state:
        store = state.open(SPECS["plain"]())
        with pytest.raises(UncommittedLimitError):
            store.put_many([b"%d" % i for i in range(100)], [b"v" * 50] * 100)
        assert list(store.all()) == []


def test_times_of_other_units(tmp_path: Any) -> None:
    with open_state(tmp_path, engine="memory") as state:
        store = state.open(SPECS["window"]())
        for unit, factor in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
            starts = pa.array([2 * factor], pa.timestamp(unit))
            store.put_many(pa.array([unit.encode()]), pa.array([b"v"]), starts)
        assert {window.start for window, _ in store.all()} == {2000}

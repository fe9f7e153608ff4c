"""Logs of window and session stores: keys as Kafka logs them, or times as columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.codec import partition, session_key, window_key
from kstore_core.errors import SpecError
from kstore_core.spark.columns.log_keys import keys_of, user_keys
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spec import StoreSpec
from tests.spark.columns.shapes import SHAPES, SHARDS, columns_of, log_of, written

WINDOWS = stores.window("w", 10_000, 50, key=serdes.UTF8)
SESSIONS = stores.session("s", 10_000, key=serdes.UTF8)
STAMPS = pa.timestamp("us", tz="UTC")


def test_times_stand_behind_the_key_as_kafka_puts_them() -> None:
    keys = pa.array(["a", "", "long key"])
    windows = {
        "key": keys,
        "window_start": pa.array([0, 5, 2**40]),
        "sequence": pa.array([0, 7, 2**31 - 1]),
    }
    made = keys_of(WINDOWS, windows.get)
    assert made.to_pylist() == [
        window_key(key.as_py().encode(), start.as_py(), number.as_py())
        for key, start, number in zip(*windows.values(), strict=True)
    ]
    assert user_keys(WINDOWS, made).to_pylist() == [b"a", b"", b"long key"]
    sessions = {
        "key": keys,
        "session_start": pa.array([0, 5_000, 2**40 * 1000]).cast(STAMPS),
        "session_end": pa.array([0, 9, 2**41]),
    }
    made = keys_of(SESSIONS, sessions.get)
    assert made.to_pylist() == [
        session_key(b"a", 0, 0),
        session_key(b"", 5, 9),
        session_key(b"long key", 2**40, 2**41),
    ]
    assert user_keys(SESSIONS, made).to_pylist() == [b"a", b"", b"long key"]


@pytest.mark.parametrize(
    ("spec", "columns", "message"),
    [
        (
            WINDOWS,
            {"window_start": [3, -1]},
            "1 of 2 records have a window_start .*before 1970, such as -1",
        ),
        (
            WINDOWS,
            {"window_start": [0, 3], "window_end": [50, 52]},
            "is not window_start \\+ 50, the window size of the store 'w', such as 52",
        ),
        (WINDOWS, {"window_start": [0, 3], "sequence": [0, -1]}, "sequence that is not from 0 to"),
        (WINDOWS, {"window_start": [0, 3], "sequence": [0, 2**31]}, "sequence that is not from"),
        (
            SESSIONS,
            {"session_start": [0, 8], "session_end": [0, 7]},
            "session_end that is before the start of its session, such as 7",
        ),
        (
            SESSIONS,
            {"session_start": [-5, 0], "session_end": [0, 7]},
            "session_start that is",
        ),
    ],
)
def test_times_that_cannot_be_are_told(spec: StoreSpec, columns: Any, message: str) -> None:
    log = {"key": pa.array(["a", "b"]), **{name: pa.array(v) for name, v in columns.items()}}
    with pytest.raises(SpecError, match=message):
        keys_of(spec, log.get)


def test_parts_of_a_millisecond_are_refused() -> None:
    log = {"key": pa.array(["a"]), "window_start": pa.array([1_500], STAMPS)}
    with pytest.raises(SpecError, match="window_start that is not a whole number of"):
        keys_of(WINDOWS, log.get)


def test_a_key_without_times_says_what_to_give() -> None:
    log = {"key": pa.array([window_key(b"a", 1), b"short"])}
    with pytest.raises(SpecError, match=r"b'short' is too short.*the columns window_start"):
        keys_of(WINDOWS, log.get)


@pytest.mark.parametrize(
    ("spec", "tail"),
    [
        (WINDOWS, b"\xff" * 8 + b"\0" * 4),
        (WINDOWS, b"\0" * 8 + b"\xff" * 4),
        (SESSIONS, b"\xff" * 8 + b"\0" * 8),
        (SESSIONS, b"\0" * 8 + b"\0" * 7 + b"\1"),
    ],
)
def test_keys_that_end_in_no_times_are_refused(spec: StoreSpec, tail: bytes) -> None:
    good = window_key(b"a", 1) if spec is WINDOWS else session_key(b"a", 1, 2)
    log = {"key": pa.array([good, b"key" + tail]).slice(1)}
    with pytest.raises(SpecError, match=rf"1 of 1 keys do not end in the times of a {spec.shape}"):
        keys_of(spec, log.get)
    assert keys_of(spec, {"key": pa.array([b"x", good]).slice(1)}.get).to_pylist() == [good]


def held(root: Root, spec: StoreSpec) -> list[Any]:
    found = []
    for shard in root.load().shards:
        if shard.path is None:
            continue
        with root.local_shard(shard) as path, open_state(path, read_only=True) as state:
            rows = list(
                state.open(spec).all() if spec.shape == "window" else _sessions(state.open(spec))
            )
        assert all(partition(windowed.key, SHARDS) == shard.shard for windowed, _ in rows)
        found += [(w.key, w.start, w.end, _plain(value)) for w, value in rows]
    return sorted(found)


def _sessions(store: Any) -> Any:
    return store.find_sessions_between(0, 10**9)


def _plain(value: Any) -> Any:
    headers = getattr(value, "headers", None)
    inner = getattr(value, "value", getattr(value, "aggregation", value))
    return inner, getattr(value, "timestamp", None), None if headers is None else tuple(headers)


def expected(spec: StoreSpec, log: list[dict[str, Any]]) -> list[Any]:
    """The last record of each key and window or session, if it is no tombstone."""
    last = {}
    for record in log:
        end = record["start"] + 50 if spec.shape == "window" else record["end"]
        last[record["key"], record["start"], end, record["sequence"]] = record
    return sorted(
        (
            key,
            start,
            end,
            (
                record["value"],
                record["timestamp"] if spec.format.timestamped else None,
                (("n", record["headers"][0]["value"]),) if spec.format.headers else None,
            ),
        )
        for (key, start, end, _), record in last.items()
        if record["value"] is not None
    )


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "logged"])
@pytest.mark.parametrize("shape", SHAPES)
def test_windows_and_sessions_are_written_and_gone_on_from(
    root: Path, shape: str, typed: bool
) -> None:
    spec, home = SHAPES[shape](), Root.at(root)
    first, second = log_of(spec, 1), log_of(spec, 2, 80)
    written(home, spec, columns_of(spec, first, typed=typed))
    assert held(home, spec) == expected(spec, first)
    written(home, spec, columns_of(spec, second, typed=typed))
    assert held(home, spec) == expected(spec, first + second)
    assert max(shard.stream_time for shard in home.load().shards) == max(
        record["start"] if spec.shape == "window" else record["end"] for record in first + second
    )


def test_a_key_of_another_shard_is_named_without_its_times() -> None:
    spec = SHAPES["window"]()
    log = ShardLog.of(columns_of(spec, log_of(spec, 3), typed=False), spec)
    with pytest.raises(SpecError, match=r"the key b'k\d' belongs to partition \d of 3"):
        log.check(0, SHARDS)


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_headers_without_a_key_are_refused(header: object) -> None:
    spec = stores.timestamped_key_value_with_headers("names")
    headers = pa.array([[{"key": "", "value": None}], [header, header], None], headers_type())
    rows = pa.table(
        {"key": [b"a", b"b", b"c"], "value": [b"1"] * 3, "timestamp": [1, 2, 3], "headers": headers}
    )
    with pytest.raises(SpecError, match="1 of 3 records have a header that is null or has a null"):
        ShardLog.of(rows, spec)
    assert len(ShardLog.of(rows.slice(2), spec)) == 1


@pytest.mark.parametrize(
    ("name", "number", "most"),
    [
        ("partition", -1, 2**31 - 1),
        ("partition", 2**31, 2**31 - 1),
        ("offset", -5, 2**63 - 1),
    ],
)
def test_partitions_and_offsets_that_no_topic_has_are_refused(
    name: str, number: int, most: int
) -> None:
    columns = {"topic": ["in"] * 3, "partition": [0, 1, 2], "offset": [7, 8, 9]}
    columns[name][1] = number
    rows = pa.table({"key": [b"a", b"b", b"c"], "value": [b"1"] * 3, **columns})
    message = rf"1 of 3 records have the {name} {number}, which is not from 0 to {most}"
    with pytest.raises(SpecError, match=message):
        ShardLog.of(rows, stores.key_value("names"))
    assert len(ShardLog.of(rows.slice(2), stores.key_value("names"))) == 1

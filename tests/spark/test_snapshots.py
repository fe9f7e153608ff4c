"""Snapshots: what they give for rows, what has expired, and how long a worker keeps them."""

from __future__ import annotations

import pyarrow as pa

from kstore_core import serdes
from kstore_core.arrow import headers_type
from kstore_core.codec import partition
from kstore_core.spark.snapshots import NEVER, Snapshot, SnapshotCache


def table(key: bytes, begin: int, value: bytes, headers: list[dict[str, object]]) -> pa.Table:
    columns = [[key], [begin], [None], [value], [headers]]
    types = [pa.binary(), pa.int64(), pa.int64(), pa.binary(), headers_type()]
    names = ["key", "begin", "end", "value", "headers"]
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)


def test_it_gives_typed_values_and_headers() -> None:
    header = {"key": "h", "value": None}
    tables = [table(b"a", 5, b"x", []), table(b"b", 1, b"y", [header])]
    snapshot = Snapshot.of(tables, serdes.UTF8, [0], headers=True)
    rows, *_ = snapshot.index.find(pa.array([b"b", b"c", b"a"]), pa.array([9, 9, 9]))
    values, headers = snapshot.columns(rows)
    assert values.type == pa.string()
    assert values.to_pylist() == ["y", None, "x"]
    assert headers.to_pylist() == [[header], None, []]
    plain = Snapshot.of(tables, serdes.UTF8, [0], headers=False)
    assert [column.to_pylist() for column in plain.columns(rows)] == [["y", None, "x"]]
    assert 0 < plain.nbytes < snapshot.nbytes


def test_an_empty_one_finds_nothing() -> None:
    for headers in (True, False):
        empty = Snapshot.of([], serdes.FLOAT64, [NEVER], headers=headers)
        keys, times = pa.array([b"a", None]), pa.array([1, 2])
        rows, *_ = empty.index.find(keys, times)
        assert [column.to_pylist() for column in empty.columns(rows)] == [[None, None]] * (
            1 + headers
        )
        assert empty.expired(keys, times).to_pylist() == [False, False]


def test_what_has_expired_is_the_shards_word() -> None:
    keys = [b"%d" % n for n in range(40)]
    horizons = [10, NEVER, 30]
    snapshot = Snapshot.of([], serdes.BYTES, horizons, headers=False)
    for time in (9, 10, 29, 30):
        found = snapshot.expired(
            pa.array([*keys, None, b"0"]), pa.array([time] * 41 + [None], pa.int64())
        )
        wanted = [time < horizons[partition(key, 3)] for key in keys]
        assert found.to_pylist() == [*wanted, False, False]
    single = Snapshot.of([], serdes.BYTES, [10], headers=False)
    assert single.expired(pa.array(keys[:1] * 2), pa.array([9, 10])).to_pylist() == [True, False]


def one(value: bytes = b"v") -> Snapshot:
    return Snapshot.of([table(b"a", 1, value, [])], serdes.BYTES, [0], headers=False)


def test_the_cache_keeps_what_was_used_last_within_its_budget() -> None:
    size = one().nbytes
    cache, made = SnapshotCache(2 * size), []

    def ask(name: str) -> None:
        def make() -> Snapshot:
            made.append(name)
            return one()

        assert cache.get(name, make) is not None

    for name in "abacabb":
        ask(name)
    assert made == ["a", "b", "c", "b"]
    cache.shrink(size)
    ask("b")
    assert made == ["a", "b", "c", "b"]
    cache.shrink(size - 1)
    ask("b")
    ask("b")
    assert made == ["a", "b", "c", "b", "b", "b"]


def test_the_cache_remembers_what_is_too_big() -> None:
    cache, made = SnapshotCache(10**6), []

    def make() -> None:
        made.append(1)

    assert cache.get("a", make) is None
    assert cache.get("a", make) is None
    cache.shrink(0)
    assert cache.get("a", make) is None
    assert made == [1]

"""Snapshots: what they give for rows, what has expired, and how long a worker keeps them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.codec import encode_aggregation_with_headers, partition
from kstore_core.spark.join import in_memory
from kstore_core.spark.join.in_memory import (
    CACHE,
    NEVER,
    VERSIONS,
    InMemoryVersions,
    VersionsCache,
)
from kstore_core.spark.join.versions import Source
from kstore_core.spark.root.manifest import File, Shard
from kstore_core.spec import StoreSpec

PLAIN = stores.versioned_key_value("plain", 10**9)


def table(key: bytes, begin: int, stored: bytes) -> pa.Table:
    columns = [[key], [stored], [begin], [None]]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, VERSIONS, strict=True)],
        schema=VERSIONS,
    )


def spec_of(*, headers: bool, value: serdes.Serde[Any]) -> StoreSpec:
    make = stores.versioned_key_value_with_headers if headers else stores.versioned_key_value
    return make("s", 10**9, value=value)


def test_it_gives_typed_values_and_headers() -> None:
    stored = encode_aggregation_with_headers(b"y", [("h", None)])
    tables = [table(b"a", 5, b"\0x"), table(b"b", 1, stored)]
    versions = InMemoryVersions.of(spec_of(headers=True, value=serdes.UTF8), tables, [0])
    rows, *_ = versions.lookup.find(pa.array([b"b", b"c", b"a"]), pa.array([9, 9, 9]))
    values, headers = versions.columns(rows, headers=True)
    assert (values.type, headers.type) == (pa.string(), headers_type())
    assert values.to_pylist() == ["y", None, "x"]
    assert headers.to_pylist() == [[{"key": "h", "value": None}], None, []]
    assert [c.to_pylist() for c in versions.columns(rows, headers=False)] == [["y", None, "x"]]
    assert versions.nbytes > versions.lookup.nbytes > 0


def test_a_format_without_headers_has_bare_values() -> None:
    spec = spec_of(headers=False, value=serdes.INT64)
    versions = InMemoryVersions.of(spec, [table(b"a", 5, b"\0" * 7 + b"\2")], [0])
    rows, *_ = versions.lookup.find(pa.array([b"a", b"c"]), pa.array([9, 9]))
    assert [c.to_pylist() for c in versions.columns(rows, headers=False)] == [[2, None]]


def test_large_versions_are_decoded_only_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "_MOST_DECODED", 7)
    versions = InMemoryVersions.of(
        PLAIN, [table(b"a", 5, b"four"), table(b"b", 5, b"12345678")], [0]
    )
    rows = [0, None]
    assert versions.columns(pa.array(rows), headers=False)[0].to_pylist() == [b"four", None]
    assert versions.columns(pa.array([1]), headers=False)[0].to_pylist() == [b"12345678"]
    with pytest.raises(
        OverflowError, match="at 2 positions have 8 bytes, and the limit is 7 bytes"
    ):
        versions.columns(pa.array([0, 0]), headers=False)


def test_an_empty_one_finds_nothing() -> None:
    empty = InMemoryVersions.of(spec_of(headers=True, value=serdes.FLOAT64), [], [NEVER])
    keys, times = pa.array([b"a", None]), pa.array([1, 2])
    rows, *_ = empty.lookup.find(keys, times)
    columns = empty.columns(rows, headers=True)
    assert [column.type for column in columns] == [pa.float64(), headers_type()]
    assert [column.to_pylist() for column in columns] == [[None, None]] * 2
    assert empty.expired(keys, times).to_pylist() == [False, False]


def test_what_has_expired_is_the_shards_word() -> None:
    keys = [b"%d" % n for n in range(40)]
    horizons = [10, NEVER, 30]
    versions = InMemoryVersions.of(PLAIN, [], horizons)
    for time in (9, 10, 29, 30):
        found = versions.expired(
            pa.array([*keys, None, b"0"]), pa.array([time] * 41 + [None], pa.int64())
        )
        wanted = [time < horizons[partition(key, 3)] for key in keys]
        assert found.to_pylist() == [*wanted, False, False]
    single = InMemoryVersions.of(PLAIN, [], [10])
    assert single.expired(pa.array(keys[:1] * 2), pa.array([9, 10])).to_pylist() == [True, False]


def one() -> InMemoryVersions:
    return InMemoryVersions.of(PLAIN, [table(b"a", 1, b"v")], [0])


def test_the_cache_keeps_what_was_used_last_within_its_budget() -> None:
    size = one().nbytes
    cache, made = VersionsCache(), []

    def ask(name: str, max_bytes: int) -> None:
        def make() -> InMemoryVersions:
            made.append(name)
            return one()

        assert cache.get(name, make, max_bytes=max_bytes) is not None

    for name in "abacabb":
        ask(name, 2 * size)
    assert made == ["a", "b", "c", "b"]
    ask("b", size)
    assert made == ["a", "b", "c", "b"]
    ask("b", size - 1)
    ask("b", size - 1)
    assert made == ["a", "b", "c", "b", "b", "b"]


def test_the_cache_remembers_what_is_too_big() -> None:
    cache, made = VersionsCache(), []

    def make() -> None:
        made.append(1)

    for max_bytes in (10**6, 10**6, 0):
        assert cache.get("a", make, max_bytes=max_bytes) is None
    assert made == [1]


def test_the_cache_remembers_a_bounded_number_of_names() -> None:
    cache, made = VersionsCache(), []

    def ask(name: int) -> None:
        cache.get(name, lambda: made.append(name), max_bytes=0)

    for name in range(1_025):
        ask(name)
    ask(1_024)
    assert made == list(range(1_025))
    ask(0)
    assert made[-1] == 0


def test_the_cache_keeps_a_bounded_number_of_files_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "_MOST_OPEN_FILES", 2)
    cache, made, open_files = VersionsCache(), [], 1

    def ask(name: str) -> None:
        def make() -> InMemoryVersions:
            made.append(name)
            return replace(one(), open_files=open_files)

        assert cache.get(name, make, max_bytes=10**9) is not None

    for name in "abacabb":
        ask(name)
    assert made == ["a", "b", "c", "b"]
    open_files = 0
    for name in "defghdefgh":
        ask(name)
    assert made == [*"abcb", *"defgh"]


def test_the_cache_distinguishes_other_files_at_the_same_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deleted root may be replaced by a copy of another root whose jobs had the same names."""
    reader: Any = SimpleNamespace(root="root", spec=PLAIN)
    names: list[object] = []

    def get(name: object, *_: object, **__: object) -> object:
        names.append(name)
        return mock.Mock()

    monkeypatch.setattr(CACHE, "get", get)
    for digest in ("00", "00", "11"):
        shards = (Shard(0, path="p", files=(File("a", 1, digest),)),)
        with Source(reader, shards, 1, headers=False, everywhere=False, cache_bytes=9).open(0):
            pass
    assert names[0] == names[1] != names[2]

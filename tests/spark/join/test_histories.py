"""Versions read from shards for a join: all of them, those of some keys, and no more than fits."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.codec import split_column
from kstore_core.errors import StateError
from kstore_core.spark.join import histories
from kstore_core.spark.join.histories import all_versions, load_versions, versions_of_keys
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.published import ShardReader
from tests.spark.support.logs import RETENTION, SHARDS, SPEC, Model, Record, make_log
from tests.spark.support.shards import put_shards

LOG = make_log(50, 1_200, SHARDS)
MODEL = Model(SHARDS, RETENTION).put(LOG)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shards")
    put_shards(root, LOG, SPEC, SHARDS)
    return root


def reader_of(root: Path, spec: Any = SPEC) -> ShardReader:
    return ShardReader(Root.at(root), spec, "rocksdb")


def rows_of(tables: list[pa.Table], *, headers: bool = True) -> list[Any]:
    rows = []
    for table in tables:
        values = table["stored"]
        if headers:
            values, *_ = split_column(values, layout="aggregation_with_headers")
        columns = (table["key"], table["begin"], table["end"], values)
        rows += zip(*(column.to_pylist() for column in columns), strict=True)
    return sorted(rows, key=lambda row: row[:2])


def kept(shard: int) -> list[Any]:
    """What the model keeps of a shard for certain: what has not ended by the horizon."""
    return sorted(
        (v.key, v.timestamp, v.valid_to, v.value)
        for v in MODEL.history()
        if v.shard == shard and (v.valid_to is None or v.valid_to > MODEL.horizon(shard))
    )


def alive(rows: list[Any], shard: int) -> list[Any]:
    return [row for row in rows if row[2] is None or row[2] > MODEL.horizon(shard)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_all_versions_are_read(root: Path, shard: int) -> None:
    with reader_of(root).open(Shard(shard, f"shard-{shard}")) as store:
        assert alive(rows_of(list(all_versions(store))), shard) == kept(shard)
        assert len(kept(shard)) > 30


@pytest.mark.parametrize("shard", range(SHARDS))
def test_those_of_some_keys_reach_as_far_back_as_asked(root: Path, shard: int) -> None:
    """From the newest back to the version of the asked time; nothing of any other key."""
    keys = sorted({row[0] for row in kept(shard)})
    now = MODEL.stream_times[shard]
    with reader_of(root).open(Shard(shard, f"shard-{shard}")) as store:
        reads = []
        for age in (0, 5, 60, 150, RETENTION):
            asked = [*keys[::2], b"~"]
            earliest = np.array([now - age + n % 3 for n in range(len(asked))])
            tables = list(versions_of_keys(store, pa.array(asked), earliest))
            found = alive(rows_of(tables), shard)
            for key, time in zip(asked, earliest.tolist(), strict=True):
                wanted = [r for r in kept(shard) if r[0] == key and (r[2] is None or r[2] > time)]
                got = [row for row in found if row[0] == key]
                assert got[len(got) - len(wanted) :] == wanted
            assert {row[0] for row in found} <= set(asked)
            reads.append(sum(table.num_rows for table in tables))
        assert reads == sorted(reads)
        assert reads[0] < reads[-1]


def test_a_versions_is_no_bigger_than_asked(root: Path) -> None:
    shards = [Shard(n, f"shard-{n}") for n in range(SHARDS)]
    reader = reader_of(root)
    whole = load_versions(reader, shards, max_bytes=10**9)
    assert whole is not None
    assert whole.horizons == tuple(MODEL.horizon(n) for n in range(SHARDS))
    assert load_versions(reader, shards, max_bytes=whole.nbytes // 2) is None
    assert load_versions(reader, shards[:1], max_bytes=whole.nbytes) is not None


def named(name: str) -> Callable[[Sequence[Shard]], str]:
    return lambda _: name


@pytest.mark.skipif(sys.platform != "linux", reason="files are shared on Linux")
def test_processes_share_the_versions_of_a_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path))
    shards = [Shard(n, f"shard-{n}") for n in range(SHARDS)]
    reader, missing = reader_of(root), [Shard(n, "missing") for n in range(SHARDS)]
    own = load_versions(reader, shards, max_bytes=10**9)
    first = load_versions(reader, shards, max_bytes=10**9, share_as=named("a"))
    again = load_versions(reader, missing, max_bytes=10**9, share_as=named("a"))
    assert own is not None
    keys = pa.concat_arrays([pa.array([row.key]) for row in LOG])
    times = pa.array([row.timestamp for row in LOG])
    wanted = own.lookup.find(keys, times)
    for shared in (first, again):
        assert shared is not None
        assert shared.stored == own.stored
        assert shared.lookup.find(keys, times) == wanted
        assert shared.horizons == own.horizons
    assert load_versions(reader, missing, max_bytes=own.nbytes // 2, share_as=named("a")) is None
    assert load_versions(reader, shards, max_bytes=own.nbytes // 2, share_as=named("b")) is None
    with pytest.raises(StateError, match="missing"):
        load_versions(reader, missing, max_bytes=10**9, share_as=named("c"))
    files = list((tmp_path / "joins").iterdir())
    assert len(files) == SHARDS
    del first, again, shared
    # The files of other processes count, and a file that is of no use does not remain.
    most = sum(file.stat().st_size for file in files) - 1
    assert load_versions(reader, missing, max_bytes=most, share_as=named("a")) is None
    assert list((tmp_path / "joins").iterdir()) == []


def test_more_shards_than_files_share_the_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [Shard(n, f"shard-{n}") for n in range(SHARDS)]
    keys, times = pa.array([row.key for row in LOG]), pa.array([row.timestamp for row in LOG])
    found = []
    for most in (1, SHARDS - 1, SHARDS, 16):
        monkeypatch.setattr(histories, "_MOST_FILES", most)
        versions = load_versions(reader_of(root), shards, max_bytes=10**9)
        assert versions is not None
        assert len(versions.stored) == min(most, SHARDS)
        rows, *spans = versions.lookup.find(keys, times)
        found.append((spans, versions.columns(rows, headers=True), versions.horizons))
    assert found[0][0][0].null_count < len(LOG) - 200
    assert found[1:] == found[:1] * 3


def test_versions_are_read_without_room_for_a_shared_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(names: object, write: object, *, max_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(histories, "share_files", full)
    versions = load_versions(
        reader_of(root), [Shard(0, "shard-0")], max_bytes=10**9, share_as=named("a")
    )
    assert versions is not None
    assert len(versions.lookup) > 30


def test_files_before_a_full_device_do_not_count(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(names: object, write: Callable[[int, BinaryIO, int], None], *, max_bytes: int) -> None:
        write(0, io.BytesIO(), max_bytes)
        raise OSError(errno.ENOSPC, "No space left on device")

    shards = [Shard(n, f"shard-{n}") for n in range(SHARDS)]
    whole = load_versions(reader_of(root), shards, max_bytes=10**9)
    assert whole is not None
    monkeypatch.setattr(histories, "share_files", full)
    size = whole.nbytes + 1000 * SHARDS
    assert load_versions(reader_of(root), shards, max_bytes=size, share_as=named("a")) is not None


def test_a_shard_without_a_path_is_empty(root: Path) -> None:
    versions = load_versions(reader_of(root), [Shard(0)], max_bytes=10**4)
    assert versions is not None
    assert len(versions.lookup) == 0
    keys, times = pa.array([b"a"]), pa.array([-(2**62)])
    assert versions.expired(keys, times).to_pylist() == [False]


def test_a_format_without_headers_is_read_too(tmp_path: Path) -> None:
    spec = stores.versioned_key_value("plain", 10**6, key=serdes.BYTES, value=serdes.BYTES)
    (shard,) = put_shards(
        tmp_path, [Record(b"a", b"1", 10), Record(b"a", None, 20), Record(b"a", b"2", 30)], spec, 1
    )
    with reader_of(tmp_path, spec).open(shard) as store:
        wanted = [(b"a", 10, 20, b"1"), (b"a", 30, None, b"2")]
        assert rows_of(list(all_versions(store)), headers=False) == wanted
        keys, earliest = pa.array([b"a"]), np.array([15])
        assert rows_of(list(versions_of_keys(store, keys, earliest)), headers=False) == wanted
        (latest,) = versions_of_keys(store, keys, np.array([30]))
        assert rows_of([latest], headers=False) == wanted[1:]

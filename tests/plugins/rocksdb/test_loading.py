"""Bulk loads: by table files where there are many rows, and all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_rocksdb import loading
from kstore_rocksdb.database import RocksDBDatabase
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import put, python, reopened, scanned
from tests.plugins.support import kill_when_done

Chunks = Iterator[tuple[list[bytes], list[bytes]]]


def key(i: int) -> bytes:
    return b"%08d" % i


def chunks(count: int, size: int, value: bytes = b"v") -> Chunks:
    for start in range(0, count, size):
        keys = [key(i) for i in range(start, min(start + size, count))]
        yield keys, [value] * len(keys)


@pytest.fixture(params=["batches", "files"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to load, whatever the number of rows."""
    if request.param == "batches":
        monkeypatch.setattr(loading, "FILES_FROM_ROWS", 10**9)
    else:
        monkeypatch.setattr(loading, "FILES_FROM_ROWS", 1)
        monkeypatch.setattr(loading, "_FILE_BYTES", 100_000)
    return str(request.param)


@pytest.mark.parametrize("size", [7, 1000, 10**6])
def test_a_load_is_read_back(
    database: RocksDBDatabase, tmp_path: Path, way: str, size: int
) -> None:
    count = 500 if size == 7 else 25_000
    database.namespace("other")
    assert database.load("other", chunks(count, size)) == count
    assert [k for k, _ in scanned(database.namespace("other"))] == [key(i) for i in range(count)]
    assert scanned(database.namespace("default")) == []
    assert not list(database.path.glob(".kstore-load-*"))
    database.close()
    assert reopened(tmp_path) == []


def test_existing_rows_are_replaced(database: RocksDBDatabase, way: str) -> None:
    put(database, {key(i): b"old" for i in range(0, 3000, 2)})
    moment = database.snapshot().namespace("default")
    scan = database.namespace("default").scan()
    assert database.load("default", chunks(2000, 100)) == 2000
    rows = dict(scanned(database.namespace("default")))
    assert len(rows) == 2500
    assert {rows[key(i)] for i in range(2000)} == {b"v"}
    assert {rows[key(i)] for i in range(2000, 3000, 2)} == {b"old"}
    assert len(scanned(moment)) == 1500
    assert sum(len(keys) for keys, _ in scan) == 1500
    assert database.namespace("default").get_many([key(0), key(1), key(2001)]) == [
        b"v",
        b"v",
        None,
    ]
    database.write({"default": Rows([key(1)], [b"newest"])})
    assert database.namespace("default").get(key(1)) == b"newest"


@pytest.mark.parametrize(
    "bad",
    [
        [([b"a", b"a"], [b"1", b"2"])],
        [([b"b", b"a"], [b"1", b"2"])],
        [([b"a", b"b"], [b"1", b"2"]), ([b"b"], [b"3"])],
        [([b"a", b"b"], [b"1", b"2"]), ([], []), ([b"a"], [b"3"])],
        [([b"a"], [b"1", b"2"])],
        [([b"a", b"b"], [b"1"])],
    ],
)
def test_keys_that_do_not_ascend_change_nothing(
    database: RocksDBDatabase, way: str, bad: list[tuple[list[bytes], list[bytes]]]
) -> None:
    put(database, {b"old": b"1"})
    with pytest.raises(ValueError, match=r"ascending|values"):
        database.load("default", bad)
    assert scanned(database.namespace("default")) == [(b"old", b"1")]
    assert not list(database.path.glob(".kstore-load-*"))


def test_an_error_of_the_caller_comes_through(database: RocksDBDatabase, way: str) -> None:
    def broken() -> Chunks:
        yield from chunks(200, 50)
        raise OSError("the topic is gone: No space left on device")

    with pytest.raises(OSError, match="the topic is gone"):
        database.load("default", broken())
    assert scanned(database.namespace("default")) == []
    assert not list(database.path.glob(".kstore-load-*"))


@pytest.mark.parametrize("row", [("text", b"v"), (b"key", "text"), (b"key", None)])
def test_only_bytes_are_loaded(database: RocksDBDatabase, way: str, row: tuple[object]) -> None:
    with pytest.raises(TypeError):
        database.load("default", [([b"a"], [b"1"]), ([row[0]], [row[1]])])  # type: ignore[list-item, misc]
    assert dict(scanned(database.namespace("default"))).keys() <= {b"a"}


def test_the_caller_may_use_its_lists_again(database: RocksDBDatabase, way: str) -> None:
    def again() -> Chunks:
        keys: list[bytes] = []
        values: list[bytes] = []
        for more_keys, more_values in chunks(900, 100):
            keys[:], values[:] = more_keys, more_values
            yield keys, values

    assert database.load("default", again()) == 900
    assert [k for k, _ in scanned(database.namespace("default"))] == [key(i) for i in range(900)]


def test_nothing_to_load(database: RocksDBDatabase, way: str) -> None:
    assert database.load("default", []) == 0
    assert database.load("default", [([], [])]) == 0


def test_empty_keys_and_values(database: RocksDBDatabase, way: str) -> None:
    assert database.load("default", [([b"", b"\x00"], [b"", b""])]) == 2
    assert scanned(database.namespace("default")) == [(b"", b""), (b"\x00", b"")]


def test_a_new_namespace_is_made(database: RocksDBDatabase, way: str) -> None:
    assert database.load("new", chunks(10, 10)) == 10
    assert len(scanned(database.namespace("new"))) == 10


@pytest.mark.parametrize("level", ["process", "changelog"])
def test_a_load_outlives_a_kill(open_database: OpenDatabase, tmp_path: Path, level: str) -> None:
    process = python(
        "database = RocksDBEngine().open(root, 's', durability=sys.argv[2])\n"
        "keys = [b'%08d' % i for i in range(50_000)]\n"
        "database.load('default', [(keys, [b'x'] * len(keys))])\n"
        "print('done', flush=True)\ntime.sleep(60)",
        tmp_path,
        level,
    )
    kill_when_done(process)
    assert len(reopened(tmp_path)) == 50_000


def test_what_a_killed_load_left_is_removed(
    closed: RocksDBDatabase, open_database: OpenDatabase
) -> None:
    left = closed.path / ".kstore-load-abc"
    left.mkdir()
    (left / "000000.sst").write_bytes(b"half")
    reader = open_database(read_only=True)
    assert left.exists()
    reader.close()
    open_database()
    assert not left.exists()

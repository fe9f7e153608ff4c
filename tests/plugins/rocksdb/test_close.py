"""Closing frees the files, whatever still refers to the database, and ends every handle."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstore_core.engine import Namespace, Rows
from kstore_core.errors import EngineError, StorageFullError, StoreClosedError, UnsupportedError
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.forks import DATABASES
from tests.plugins.rocksdb.conftest import OpenDatabase
from tests.plugins.rocksdb.support import every_use, flat, numbered, put, reopened, scanned
from tests.support.threads import running


@pytest.mark.parametrize("read_only", [False, True])
def test_everything_after_close_says_so(
    open_database: OpenDatabase, tmp_path: Path, read_only: bool
) -> None:
    database = open_database()
    database.namespace("offsets")
    put(database, numbered(100))
    if read_only:
        database.close()
        database = open_database(read_only=True)
    uses = every_use(database, tmp_path)
    database.close()
    database.close()
    for use in uses:
        for _ in range(2):
            with pytest.raises(StoreClosedError, match="has been closed"):
                use()
    assert "closed" in repr(database)
    assert not (tmp_path / "checkpoint").exists()
    assert len(reopened(tmp_path)) == 100


def test_close_frees_the_lock_under_open_scans_and_snapshots(
    database: RocksDBDatabase, tmp_path: Path
) -> None:
    put(database, numbered(5000))
    namespace = database.namespace("default")
    snapshot = database.snapshot()
    scan, moment = namespace.scan(), snapshot.namespace("default").scan()
    next(scan), next(moment)
    only_scan = database.snapshot().namespace("default").scan()
    next(only_scan)
    database.close()
    assert len(reopened(tmp_path)) == 5000
    for held in (scan, moment, only_scan):
        with pytest.raises(StoreClosedError):
            next(held)


def test_close_frees_the_lock_under_errors_that_are_kept(
    database: RocksDBDatabase, tmp_path: Path
) -> None:
    """A traceback keeps the frames, and with them what their variables refer to."""
    put(database, {b"a": b"1"})
    namespace = database.namespace("default")
    kept = []
    for use in (
        lambda: namespace.get("a"),  # type: ignore[arg-type]
        lambda: database.write({"default": Rows(["a"], [b"1"])}),  # type: ignore[list-item]
        lambda: namespace.scan(1),  # type: ignore[arg-type]
        lambda: database.snapshot().namespace("default").get("a"),  # type: ignore[arg-type]
        lambda: database.drop_namespace("default"),
        lambda: next(FailingScan.of(namespace.scan())),
        lambda: next(FailingScan.of(database.snapshot().namespace("default").scan())),
    ):
        with pytest.raises((TypeError, EngineError, UnsupportedError)) as caught:
            use()
        kept.append(caught)
    database.close()
    assert reopened(tmp_path) == [(b"a", b"1")]
    assert len(kept) == 7


class FailingScan:
    """A native iterator whose status is bad."""

    def __init__(self, native: object) -> None:
        self.native = native

    @classmethod
    def of(cls, scan: Any) -> Any:
        """``scan``, reading from such an iterator."""
        holder, name = (scan, "_native") if hasattr(scan, "_native") else (scan._shared, "native")
        setattr(holder, name, cls(getattr(holder, name)))
        return scan

    def seek(self, _: bytes) -> None: ...

    def key(self) -> None:
        return None

    def status(self) -> None:
        native = self.native
        raise Exception(f"Corruption: {native!r}")


def test_a_snapshot_ends_apart_from_its_database(database: RocksDBDatabase) -> None:
    put(database, {b"a": b"1"})
    with database.snapshot() as snapshot:
        namespace = snapshot.namespace("default")
        scan = namespace.scan()
    snapshot.close()
    for use in (
        lambda: snapshot.namespace("default"),
        lambda: namespace.get(b"a"),
        lambda: next(scan),
    ):
        with pytest.raises(StoreClosedError):
            use()
    assert database.namespace("default").get(b"a") == b"1"


def test_dropping_clears_the_handles(database: RocksDBDatabase, tmp_path: Path) -> None:
    """A put through a dropped family would break the whole database."""
    dropped = database.namespace("gone")
    put(database, numbered(100), "gone")
    scan = dropped.scan()
    moment = database.snapshot().namespace("gone")
    database.drop_namespace("gone")
    for use in (
        lambda: dropped.get(b"a"),
        lambda: dropped.get_many([b"a"]),
        lambda: dropped.scan(),
        lambda: next(scan),
        lambda: dropped.approximate_count(),
        lambda: dropped.handle,
    ):
        with pytest.raises(StoreClosedError, match=r"'gone'.* was dropped"):
            use()
    assert len(scanned(moment)) == 100
    assert moment.get(b"%08d" % 1) is not None
    assert database.namespaces() == ["default"]
    with pytest.raises(KeyError):
        put(database, {b"a": b"1"}, "gone")
    with pytest.raises(KeyError):
        database.drop_namespace("gone")
    put(database, {b"a": b"1"})
    assert scanned(database.namespace("gone")) == []
    put(database, {b"b": b"2"}, "gone")
    database.close()
    assert reopened(tmp_path) == [(b"a", b"1")]


def test_the_default_namespace_cannot_be_dropped(database: RocksDBDatabase) -> None:
    with pytest.raises(UnsupportedError, match="default"):
        database.drop_namespace("default")


def test_close_waits_for_calls_of_other_threads(database: RocksDBDatabase, tmp_path: Path) -> None:
    """The binding refuses to close a handle while another thread is inside it."""
    rows = numbered(50_000)
    put(database, rows)
    namespace = database.namespace("default")
    keys = list(rows)
    outcomes: list[object] = []
    started = threading.Barrier(4)

    def read() -> None:
        started.wait()
        try:
            while True:
                outcomes.append(len(namespace.get_many(keys)))
        except StoreClosedError:
            outcomes.append("closed")

    with running(read, read, read):
        started.wait()
        time.sleep(0.05)
        database.close()
    assert outcomes.count("closed") == 3
    assert set(outcomes) <= {"closed", 50_000}
    assert len(reopened(tmp_path)) == 50_000


def test_scans_of_other_threads_end_with_the_database(
    database: RocksDBDatabase, tmp_path: Path
) -> None:
    put(database, numbered(20_000))
    outcomes: list[object] = []
    moment = database.snapshot().namespace("default")
    namespaces = [database.namespace("default"), moment, moment]
    started = threading.Barrier(len(namespaces) + 1)

    def read(namespace: Namespace, reverse: bool) -> None:
        started.wait()
        try:
            while True:
                outcomes.append(len(scanned(namespace, reverse=reverse)))
        except BaseException as error:  # noqa: BLE001
            outcomes.append(type(error))

    reads = [
        partial(read, namespace, number % 2 == 1) for number, namespace in enumerate(namespaces)
    ]
    with running(*reads):
        started.wait()
        time.sleep(0.1)
        database.close()
    assert set(outcomes) <= {20_000, StoreClosedError}
    assert outcomes.count(StoreClosedError) == len(reads)
    assert len(reopened(tmp_path)) == 20_000


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_that_begins_while_its_snapshot_ends_is_not_empty(
    database: RocksDBDatabase, monkeypatch: pytest.MonkeyPatch, reverse: bool
) -> None:
    put(database, numbered(100))
    moment = database.snapshot().namespace("default")

    def check() -> None:
        monkeypatch.undo()
        moment.check()
        database.close()  # as another thread may do right after the check

    monkeypatch.setattr(moment, "check", check)
    scan = moment.scan(reverse=reverse)
    with pytest.raises(StoreClosedError):
        next(scan)


def test_writers_of_other_threads_end_with_the_database(
    database: RocksDBDatabase, tmp_path: Path
) -> None:
    written: list[int] = []
    failures: list[BaseException] = []

    def write(start: int) -> None:
        try:
            for i in range(start, 10**9, 4):
                put(database, {b"%09d" % i: b"x"})
                written.append(i)
        except StoreClosedError:
            return
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    with running(*(partial(write, start) for start in range(4))):
        time.sleep(0.2)
        database.close()
    assert failures == []
    assert [key for key, _ in reopened(tmp_path)] == [b"%09d" % i for i in sorted(written)]


def test_a_close_that_fails_frees_the_files_all_the_same(
    database: RocksDBDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(database, {b"a": b"1"})

    def fail(native: object, *, flush: bool) -> None:
        native.close()  # type: ignore[attr-defined]
        raise Exception("IO error: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("kstore_rocksdb.database._close", fail)
        with pytest.raises(StorageFullError, match="cannot close"):
            database.close()
    database.close()
    assert reopened(tmp_path) == [(b"a", b"1")]


def test_closed_databases_are_not_remembered(open_database: OpenDatabase, tmp_path: Path) -> None:
    before = len(DATABASES)
    for _ in range(3):
        open_database().close()
        open_database(read_only=True).close()
    import gc

    gc.collect()
    assert len(DATABASES) <= before + 6
    assert flat([]) == []

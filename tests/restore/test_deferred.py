"""Restored records whose rows wait for the next use of the store."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import StoreSpec, open_state, stores
from kstore_core.changelog import FileChangelog
from kstore_core.errors import (
    ForkedHandleError,
    SpecError,
    StorageFullError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.restore import Restored, columnar, deferred, restore, spool, versions
from tests.support.engines import Home

pytestmark = pytest.mark.usefixtures("left_sound")

SPECS = [
    stores.key_value("s"),
    stores.timestamped_key_value_with_headers("s"),
    stores.versioned_key_value("s", 30, 7),
    stores.versioned_key_value_with_headers("s", 30, 7),
]
KEYS = [b"", b"a", b"a\x00", b"b"]
RECORD = st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=3), st.integers(0, 60))
STEPS = st.lists(
    st.one_of(
        st.lists(RECORD, min_size=1, max_size=12),
        RECORD,
        st.sampled_from(["read", "scan", "as of", "segments", "commit", "many"]),
    ),
    max_size=12,
)

each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.format.name)


@pytest.fixture(params=[1000, 64 * 1024 * 1024], ids=["files", "memory"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(columnar, "_BUILD_BYTES", request.param)
    return int(request.param)


def restored(store: Any, records: list[tuple[bytes, bytes | None, int]]) -> Restored:
    keys, values, times = zip(*records, strict=True)
    columns = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    return restore(store, *columns, pa.array(times, pa.int64()))


def put(store: Any, record: tuple[bytes, bytes | None, int]) -> None:
    key, value, time = record
    if value is None and not store.spec.format.versioned:
        store.delete(key)
    else:
        store.put(key, value, **({"timestamp": time} if store.spec.format.timestamped else {}))


def answer(store: Any, step: object) -> object:
    """The answer of one kind of read, which may be the first read after a restore."""
    if step == "scan":
        return list(store.all())
    if step == "many":
        return store.get_many(KEYS)
    if step == "read" or not store.spec.format.versioned:
        return [store.get(key) for key in KEYS]
    if step == "segments":
        return [list(store.history(key)) for key in KEYS]
    return [
        (list(store.range(None, None, as_of=time)), [store.get(key, as_of=time) for key in KEYS])
        for time in range(store.clock.horizon, 62, 5)
    ]


def waiting_of(store: Any) -> Any:
    rows = store.table.rows
    return (rows.rows if store.spec.format.versioned else rows).deferred


def is_waiting(store: Any) -> bool:
    return waiting_of(store) is not None


@each_spec
@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_a_store_never_shows_that_rows_wait(spec: StoreSpec, steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar, "_BUILD_BYTES", 1500)
        with open_state("a", engine="memory") as a, open_state("b", engine="memory") as b:
            columns, puts = a.open(spec), b.open(spec)
            for step in steps:
                if step == "commit":
                    a.commit()
                elif isinstance(step, list):
                    restored(columns, step)
                    for record in step:
                        put(puts, record)
                elif isinstance(step, tuple):
                    put(columns, step)
                    put(puts, step)
                else:
                    assert answer(columns, step) == answer(puts, step)
            for step in ("read", "scan", "as of", "segments", "many"):
                assert answer(columns, step) == answer(puts, step)


@each_spec
def test_rows_wait_for_a_commit_and_outlive_a_reopen(
    spec: StoreSpec, tmp_path: Path, limit: int
) -> None:
    home = Home(tmp_path / "0_0", "rocksdb")
    with home.open() as state:
        store = state.open(spec)
        for number in range(40):
            assert restored(store, [(b"k%d" % (number % 9), b"%d" % number, number)]).records == 1
            assert is_waiting(store) or limit == 1000
        state.commit({("t", 0): 39})
        assert not is_waiting(store)
    with home.open(read_only=True) as state:
        assert [value for _, value in state.open(spec).all()]
        assert len(list(state.open(spec).all())) == 9
        assert state.offsets() == {("t", 0): 39}
    assert not list(home.path.glob(".kstore-*"))


@each_spec
def test_a_close_without_a_commit_drops_them_and_their_files(
    spec: StoreSpec, tmp_path: Path, limit: int
) -> None:
    state = open_state(tmp_path / "0_0", engine="rocksdb")
    store = state.open(spec)
    for number in range(20):
        restored(store, [(b"k", b"%d" % number, number)])
    assert is_waiting(store) or limit == 1000
    assert state.staged_bytes > 0
    state.close()
    assert not list((tmp_path / "0_0").glob(".kstore-*"))
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        found = list(state.open(spec).all())
    assert not found or (spec.shape == "key_value" and limit == 1000)


@pytest.mark.parametrize("spec", SPECS[::2], ids=lambda spec: spec.format.name)
def test_a_failure_loses_no_record(
    spec: StoreSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a read nor a commit goes on without the rows. The next one writes them again."""
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(spec)
        restored(store, [(b"a", b"1", 1), (b"b", b"2", 2)])
        with monkeypatch.context() as patch:
            rows = store.table.rows if spec.shape == "key_value" else store.table.rows.rows
            patch.setattr(type(rows.database), "load", _full)
            for use in (lambda: store.get(b"a"), state.commit, lambda: list(store.all())):
                with pytest.raises(StorageFullError):
                    use()
        restored(store, [(b"a", b"3", 3)])
        state.commit()
        assert len(list(store.all())) == 2
        assert b"3" in str(store.get(b"a")).encode()


def test_a_full_disk_while_records_are_moved_to_files_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_BUILD_BYTES", 1000)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(SPECS[2])
        for number in range(9):
            restored(store, [(b"a", b"%d" % number, number)])
        with monkeypatch.context() as patch:
            patch.setattr(spool.SpooledParts, "add", _full)
            with pytest.raises(StorageFullError):
                restored(store, [(b"a", b"late", 0), (b"a", b"new", 100)])
            assert store.stream_time == 8
        assert restored(store, [(b"a", b"late", 0), (b"a", b"new", 100)]).late == 0
        assert [version.value for version in store.history(b"a")][-1] == b"new"
        assert len(list(store.history(b"a", from_ts=store.clock.horizon))) == 2


def _full(*_: object) -> None:
    raise StorageFullError("the disk is full")


@each_spec
def test_rows_that_are_written_at_once_are_counted(spec: StoreSpec, tmp_path: Path) -> None:
    columns = (
        pa.array([b"a", b"a", b"b"]),
        pa.array([b"1", b"2", b"3"]),
        pa.array([1, 2, 3], pa.int64()),
    )
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(spec)
        assert restore(store, *columns).rows == 3
        assert is_waiting(store)
    with open_state(tmp_path / "0_1", engine="rocksdb") as state:
        store = state.open(spec)
        done = restore(store, *columns, at_once=True)
        assert not is_waiting(store)
        assert done.rows == (3 if spec.format.versioned else 2)


def test_a_transactional_state_refuses_what_exceeds_its_limit(tmp_path: Path) -> None:
    with open_state(
        tmp_path / "0_0", engine="rocksdb", transactional=True, uncommitted_max_bytes=1000
    ) as state:
        store = state.open(SPECS[0])
        restored(store, [(b"a", b"1" * 100, 1)])
        assert not is_waiting(store)
        with pytest.raises(UncommittedLimitError):
            restored(store, [(b"b", b"1" * 1000, 1)])
        assert store.get(b"b") is None


def test_waiting_records_count_as_uncommitted(tmp_path: Path) -> None:
    """So a put into another store writes them when both exceed the limit."""
    with open_state(tmp_path / "0_0", engine="rocksdb", uncommitted_max_bytes=20_000) as state:
        store, other = state.open(SPECS[0]), state.open(stores.key_value("other"))
        restored(store, [(b"a", b"1" * 8_000, 1)])
        assert is_waiting(store)
        other.put(b"b", b"2" * 6_000)
        assert is_waiting(store)
        other.put(b"c", b"2" * 6_000)
        assert not is_waiting(store)
        assert store.get(b"a") == b"1" * 8_000


def test_a_time_before_1970_is_refused_at_once() -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(SPECS[2])
        restored(store, [(b"a", b"1", 5)])
        with pytest.raises(SpecError, match="before 1970"):
            restored(store, [(b"b", b"1", 9), (b"c", b"1", -1)])
        assert is_waiting(store)
        assert store.stream_time == 5
        assert [key for key, _ in store.all()] == [b"a"]


@each_spec
def test_readers_in_other_threads_see_whole_batches(spec: StoreSpec, tmp_path: Path) -> None:
    """A batch has one value for all its keys. A reader sees no older batch than an earlier read."""
    wrong: list[object] = []
    done = threading.Event()
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(spec)

        def read() -> None:
            last = -1
            while not done.is_set():
                found = store.get(b"k")
                number = -1 if found is None else int(getattr(found, "value", found))
                if number < last:
                    wrong.append((number, last))
                last = number

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        try:
            for number in range(300):
                restored(store, [(b"k", b"%d" % number, number), (b"j", b"%d" % number, number)])
                if number % 50 == 0:
                    state.commit()
        finally:
            done.set()
            for reader in readers:
                reader.join()
        assert not wrong
        found = store.get(b"k")
        assert int(getattr(found, "value", found)) == 299


def test_an_interrupt_while_rows_are_written_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(SPECS[2])
        restored(store, [(b"a", b"1", 1), (b"a", b"2", 2)])
        with monkeypatch.context() as patch:
            patch.setattr(versions, "build_version_rows", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.get(b"a")
        assert [version.value for version in store.history(b"a")] == [b"1", b"2"]


def _interrupted(*_: object, **__: object) -> Iterator[object]:
    raise KeyboardInterrupt


def test_a_store_that_is_closed_or_read_only_refuses_them(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(SPECS[0])
        restored(store, [(b"a", b"1", 1)])
    with pytest.raises(StoreClosedError):
        restored(store, [(b"a", b"2", 2)])
    with open_state(tmp_path / "0_0", read_only=True) as state:
        store = state.open(SPECS[0])
        with pytest.raises(UnsupportedError):
            restored(store, [(b"a", b"2", 2)])
        assert store.get(b"a") == b"1"


def test_a_forked_child_cannot_write_them(one_process: None, tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory") as state:
        store = state.open(SPECS[0])
        restored(store, [(b"a", b"1", 1)])
        child = os.fork()
        if child == 0:
            try:
                for use in (lambda: store.get(b"a"), lambda: restored(store, [(b"b", b"2", 2)])):
                    with pytest.raises(ForkedHandleError):
                        use()
                os._exit(7)
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert store.get(b"a") == b"1"


def test_a_reader_that_waited_does_not_drop_newer_records() -> None:
    """The reader of the first records goes on when the next records wait already."""
    with open_state("s", engine="memory") as state:
        store = state.open(SPECS[0])
        restored(store, [(b"a", None, 1)])
        first = waiting_of(store)
        with first.lock:
            reader = threading.Thread(target=first.settle)
            reader.start()
            first.settle()
            restored(store, [(b"k", b"v", 2)])
            assert is_waiting(store)
        reader.join()
        assert store.get(b"k") == b"v"
        state.commit()
        assert (store.get(b"k"), state.staged_bytes) == (b"v", 0)


@pytest.mark.parametrize("spec", SPECS[::2], ids=lambda spec: spec.format.name)
@pytest.mark.parametrize("value", [None, b"new"], ids=["delete", "put"])
def test_records_after_an_interrupt_replace_what_was_written_before_it(
    spec: StoreSpec, value: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the first rows are written. The other ones are not, or all are staged deletions."""
    monkeypatch.setattr(deferred, "_BULK_ROWS", 4)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(spec)
        if spec.shape == "key_value" and value is not None:
            restore_at_once(store, [(b"%d" % n, b"old", n) for n in range(6)])
            state.commit()
        first = None if spec.shape == "key_value" and value is not None else b"old"
        restored(store, [(b"%d" % n, first, n) for n in range(6)])
        waiting = waiting_of(store)
        write = waiting._write

        def interrupted(parts: Any) -> None:
            write(parts)
            raise KeyboardInterrupt

        waiting._write = interrupted
        with pytest.raises(KeyboardInterrupt):
            store.get(b"x")
        waiting._write = write
        restored(store, [(b"%d" % n, value, 10 + n) for n in range(6)])
        state.commit()
        assert len(list(store.all())) == (0 if value is None else 6)


def restore_at_once(store: Any, records: list[tuple[bytes, bytes | None, int]]) -> None:
    keys, values, times = zip(*records, strict=True)
    columns = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    restore(store, *columns, pa.array(times, pa.int64()), at_once=True)


@pytest.mark.parametrize("other", ["read", "commit"])
def test_two_threads_write_the_records_of_two_stores(other: str, tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb", uncommitted_max_bytes=100_000) as state:
        a, b = state.open(stores.key_value("a")), state.open(stores.key_value("b"))
        for store in (a, b):
            restored(store, [(b"first", b"1", 0)])
        state.commit()
        for _ in range(20):
            for store in (a, b):
                restored(store, [(b"%d" % n, b"v" * 100, 0) for n in range(200)])
            both = threading.Barrier(2)
            use = partial(a.get, b"x") if other == "read" else state.commit
            threads = [
                threading.Thread(target=_after, args=(both, call), daemon=True)
                for call in (partial(b.get, b"x"), use)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
                assert not thread.is_alive(), "the threads wait for each other"
            state.commit()


def _after(barrier: threading.Barrier, call: Callable[[], object]) -> None:
    barrier.wait()
    call()


def test_the_limit_applies_to_the_records_of_all_stores_together(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb", uncommitted_max_bytes=100_000) as state:
        opened = [state.open(stores.key_value(f"s{number}")) for number in range(9)]
        for number in range(9):
            for store in opened:
                restored(store, [(b"%d" % number, b"v" * 10_000, 0)])
                assert state.staged_bytes <= 100_000
        assert all(len(list(store.all())) == 9 for store in opened)


def test_versions_of_several_stores_move_to_files_before_they_are_spilled(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb", uncommitted_max_bytes=100_000) as state:
        opened = [state.open(stores.versioned_key_value(f"s{n}", 1000)) for n in range(3)]
        for number in range(30):
            for store in opened:
                restored(store, [(b"k%d" % (number % 7), b"v" * 9_000, number)])
                assert is_waiting(store)
                assert state.staged_bytes <= 100_000
        state.commit()
        assert [len(list(store.history(b"k1"))) for store in opened] == [5, 5, 5]


def test_a_commit_opens_a_database_again_that_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB stays unable to write after a full disk, until it is opened again."""
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(SPECS[0])
        restored(store, [(b"a", b"1", 1)])
        stuck = store.table.rows.database
        load = type(stuck).load

        def full(database: Any, *given: Any) -> int:
            if database is stuck:
                raise StorageFullError("the disk is full")
            return int(load(database, *given))

        monkeypatch.setattr(type(stuck), "load", full)
        with pytest.raises(StorageFullError):
            store.get(b"a")
        state.commit()
        assert store.get(b"a") == b"1"


def test_a_close_while_a_reader_waits_for_the_rows() -> None:
    state = open_state("s", engine="memory")
    store = state.open(SPECS[0])
    restored(store, [(b"a", b"1", 1)])
    found: list[object] = []

    def use(call: Callable[[], object]) -> None:
        try:
            found.append(call())
        except StoreClosedError:
            found.append("closed")

    calls = [partial(store.get, b"a"), partial(store.put, b"b", b"1"), lambda: list(store.all())]
    threads = [threading.Thread(target=use, args=(call,)) for call in calls]
    with waiting_of(store).lock:
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        state.close()
    for thread in threads:
        thread.join()
    assert (found, state.staged_bytes) == (["closed"] * 3, 0)


def test_a_close_needs_no_disk_space_for_records_that_it_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_BUILD_BYTES", 1000)
    state = open_state(tmp_path / "0_0", engine="rocksdb")
    store = state.open(SPECS[2])
    for number in range(20):
        restored(store, [(b"a", b"%d" % number, number)])
    close = FileChangelog.close

    def closed(log: Any) -> None:
        close(log)
        _full()

    with monkeypatch.context() as patch:
        patch.setattr(FileChangelog, "close", closed)
        state.close()
    assert not list((tmp_path / "0_0").glob(".kstore-restore*"))


def test_a_read_only_store_keeps_its_stream_time(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(SPECS[2]).put(b"a", b"1", timestamp=5)
        state.commit()
    with open_state(tmp_path / "0_0", read_only=True) as state:
        store = state.open(SPECS[2])
        with pytest.raises(UnsupportedError, match="read_only"):
            restored(store, [(b"a", b"2", 1000)])
        assert store.stream_time == 5


def test_records_of_two_restoring_threads_wait_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that begins to wait settles the records of another, which then come again."""
    with open_state("s", engine="memory") as state:
        store = state.open(SPECS[0])
        restored(store, [(b"1", b"v", 1)])
        first = waiting_of(store)
        monkeypatch.setattr(first, "_end", lambda: ended(first))

        def ended(waiting: Any) -> None:
            type(waiting)._end(waiting)
            other = threading.Thread(target=restored, args=(store, [(b"3", b"v", 3)]))
            other.start()
            other.join()

        late = deferred._Waiting(store.table.rows, first._gathered, first._write)
        if late.install(needs_empty=False):
            late.discard()
        assert [key for key, _ in store.all()] == [b"1", b"3"]
        state.commit()
        assert state.staged_bytes == 0


def test_versions_do_not_wait_if_another_thread_has_just_written_some() -> None:
    with open_state("s", engine="memory") as state:
        store = state.open(SPECS[2])
        restored(store, [(b"a", b"1", 1)])
        first = waiting_of(store)
        late = deferred._Waiting(store.table.rows.rows, first._gathered, first._write)
        assert not late.install(needs_empty=True)
        assert not is_waiting(store)
        assert [version.value for version in store.history(b"a")] == [b"1"]


def test_an_interrupt_when_the_rows_are_written_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_BUILD_BYTES", 1000)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(SPECS[2])
        for number in range(20):
            restored(store, [(b"a", b"%d" % number, number)])
        close = spool.Gathered.close

        def interrupted(gathered: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            close(gathered)

        with monkeypatch.context() as patch:
            patch.setattr(spool.Gathered, "close", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.get(b"a")
        assert (is_waiting(store), state.staged_bytes) == (False, 0)
        assert not list((tmp_path / "0_0").glob(".kstore-restore*"))


def test_records_in_files_count_as_uncommitted(tmp_path: Path) -> None:
    """Late records may move all others to files, and then no record is in memory."""
    with open_state(tmp_path / "0_0", engine="rocksdb", uncommitted_max_bytes=5000) as state:
        store = state.open(SPECS[2])
        restored(store, [(b"a", b"v" * 3000, 1000)])
        restored(store, [(b"b", b"v" * 3000, 1)])
        assert is_waiting(store)
        assert state.staged_bytes > 0
        assert [key for key, _ in store.all()] == [b"a"]

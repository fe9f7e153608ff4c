"""The logged layer: what goes to the log, when, and what never does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstore_core import Headers, Windowed, open_state, stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.changelog.whole import without_marks
from kstore_core.codec import LogRecord, RecordColumns, session_key, window_key
from kstore_core.errors import (
    EngineError,
    EngineLockedError,
    SpecError,
    StateError,
    StorageFullError,
    UncommittedLimitError,
)
from kstore_core.layers import logged as logged_layer
from kstore_core.layers.logged import Journal
from kstore_core.spec import StoreSpec
from kstore_core.types import NOT_PUT
from tests.restore.stores import logs, open_log

PAIRS = [("a", b"1"), ("a", None)]
INPUT = {"topic": "in", "partition": 0, "offset": 3, "timestamp": 99, "headers": [("i", b"2")]}


def logged(root: Path) -> list[tuple[Any, ...]]:
    with open_log(root) as log:
        return [
            (record.key, record.value, record.timestamp, list(record.headers))
            for records in log.read()
            for record in without_marks(records)
        ]


def plain(store: Any) -> None:
    store.put(b"k", b"v")
    store.delete(b"k")


def timed(store: Any) -> None:
    store.put(b"k", b"v", timestamp=5)
    store.delete(b"k")


def headed(store: Any) -> None:
    store.put(b"k", b"v", timestamp=5, headers=PAIRS)
    store.delete(b"k")


def versioned(store: Any) -> None:
    store.put(b"k", b"v", timestamp=5)
    store.delete(b"k", timestamp=6)


def versioned_headed(store: Any) -> None:
    store.put(b"k", b"v", timestamp=5, headers=PAIRS)
    store.delete(b"k", timestamp=6)


def window(store: Any) -> None:
    store.put(b"k", b"v", window_start=7)
    store.put(b"k", None, window_start=7)


def window_headed(store: Any) -> None:
    store.put(b"k", b"v", window_start=7, timestamp=5, headers=PAIRS)
    store.put(b"k", None, window_start=7)


def session(store: Any) -> None:
    store.put(Windowed(b"k", 3, 7), b"v")
    store.remove(Windowed(b"k", 3, 7))


def session_headed(store: Any) -> None:
    store.put(Windowed(b"k", 3, 7), b"v", headers=PAIRS)
    store.remove(Windowed(b"k", 3, 7))


KEY, WINDOW, SESSION = b"k", window_key(b"k", 7), session_key(b"k", 3, 7)
OF_INPUT = [("i", b"2")]


@pytest.mark.parametrize(
    ("spec", "work", "key", "put", "delete"),
    [
        (stores.key_value("s"), plain, KEY, (99, []), (99, [])),
        (stores.timestamped_key_value("s"), timed, KEY, (5, []), (99, [])),
        (stores.timestamped_key_value_with_headers("s"), headed, KEY, (5, PAIRS), (99, OF_INPUT)),
        (stores.versioned_key_value("s", 9), versioned, KEY, (5, []), (6, [])),
        (
            stores.versioned_key_value_with_headers("s", 9),
            versioned_headed,
            KEY,
            (5, PAIRS),
            (6, OF_INPUT),
        ),
        (stores.window("s", 9, 2), window, WINDOW, (99, []), (99, [])),
        (
            stores.timestamped_window_with_headers("s", 9, 2),
            window_headed,
            WINDOW,
            (5, PAIRS),
            (99, OF_INPUT),
        ),
        (stores.session("s", 9), session, SESSION, (99, []), (99, [])),
        (stores.session_with_headers("s", 9), session_headed, SESSION, (99, PAIRS), (99, OF_INPUT)),
        (
            stores.timestamped_window_with_headers("s", 9, 2, time_ordered=True),
            window_headed,
            WINDOW,
            (5, PAIRS),
            (99, OF_INPUT),
        ),
        (
            stores.session("s", 9, time_ordered=True, indexed=False),
            session,
            SESSION,
            (99, []),
            (99, []),
        ),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_kafka_streams_logs(
    tmp_path: Path, spec: StoreSpec, work: Any, key: bytes, put: Any, delete: Any
) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        store = state.open(spec)
        with state.record(**INPUT):
            work(store)
    assert logged(tmp_path) == [(key, b"v", *put), (key, None, *delete)]


def test_without_an_input_record_the_time_is_unknown(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        plain(state.open(stores.key_value("s")))
    assert logged(tmp_path) == [(b"k", b"v", -1, []), (b"k", None, -1, [])]


def test_what_is_too_late_is_not_logged(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        store = state.open(stores.versioned_key_value("s", 10, 5))
        store.put(b"k", b"1", timestamp=100)
        assert store.put(b"k", b"2", timestamp=50) == NOT_PUT
        assert store.delete(b"k", timestamp=50) is None
        store.put(b"k", b"3", timestamp=95)
    assert [(value, time) for _, value, time, _ in logged(tmp_path)] == [(b"1", 100), (b"3", 95)]


def test_late_windows_are_not_logged_and_duplicates_keep_their_numbers(tmp_path: Path) -> None:
    spec = stores.window("s", 10, 2, retain_duplicates=True, segment_interval_ms=5)
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        store = state.open(spec)
        for value, start in ((b"1", 100), (b"2", 100), (b"late", 50), (b"3", 99)):
            store.put(b"k", value, window_start=start)
        store.put(b"k", None, window_start=100)
    keys = [(window_key(b"k", 100, 1), b"1"), (window_key(b"k", 100, 2), b"2")]
    assert [row[:2] for row in logged(tmp_path)] == [*keys, (window_key(b"k", 99, 4), b"3")]
    with open_state(tmp_path / "new" / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        store = state.open(spec)
        store.put(b"k", b"4", window_start=100)
        assert list(store.fetch(b"k")) == [(99, b"3"), (100, b"1"), (100, b"2"), (100, b"4")]


def test_a_put_all_and_a_put_if_absent(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        store = state.open(stores.key_value("s"))
        store.put_all([(b"a", b"1"), (b"b", None)])
        store.put_if_absent(b"a", b"2")
        store.put_if_absent(b"c", b"3")
    assert [row[:2] for row in logged(tmp_path)] == [(b"a", b"1"), (b"b", None), (b"c", b"3")]


def test_a_range_is_deleted_row_by_row_and_a_load_is_logged(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        table = state.open(stores.key_value("s")).table
        table.load([([b"a", b"b", b"c"], [b"1", b"2", b"3"])])
        table.delete_range(b"a", b"c")
        assert table.get_many([b"a", b"b", b"c"]) == [None, None, b"3"]
    values = [row[:2] for row in logged(tmp_path)]
    assert values == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", None), (b"b", None)]


def test_of_a_cache_one_record_a_key_with_its_last_context(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        store = state.open(stores.key_value("s").with_cache())
        for number in range(10):
            with state.record(topic="in", partition=0, offset=number, timestamp=number):
                store.put(b"k%d" % (number % 2), b"%d" % number)
        state.commit()
    assert logged(tmp_path) == [(b"k0", b"8", 8, []), (b"k1", b"9", 9, [])]


def test_headers_that_change_after_a_delete(tmp_path: Path) -> None:
    headers = Headers([("a", b"1")])
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        store = state.open(stores.timestamped_key_value_with_headers("s"))
        with state.record(timestamp=5, headers=headers):
            store.delete(b"k")
        headers.add("b", b"2")
    assert logged(tmp_path) == [(b"k", None, 5, [("a", b"1")])]


def test_what_is_not_committed_is_not_logged(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        store = state.open(spec)
        store.put(b"a", b"1")
        state.commit()
        store.put(b"b", b"2")
        state.close()
    assert [row[:2] for row in logged(tmp_path)] == [(b"a", b"1")]


def test_offsets_say_how_far_the_log_is_whatever_is_committed(tmp_path: Path) -> None:
    where = ("app-s-changelog", 0)
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        store = state.open(stores.key_value("s"))
        state.commit({("in", 0): 1})
        assert store.offsets() == {("in", 0): 1, where: 0}  # a mark
        store.put(b"a", b"1")
        state.commit()
        assert store.offsets() == {("in", 0): 1, where: 3}  # the row between two marks
        store.put(b"a", b"1")
        state.commit({})
        assert store.offsets() == {where: 6}
        store.put(b"a", b"1")
        state.commit()
        assert store.offsets() == {where: 7}  # nothing is known that a mark could say
        state.commit({where: 77, ("in", 1): 5})
        assert store.offsets() == {where: 8, ("in", 1): 5}
        state.commit({("in", 1): 5})
        assert store.offsets() == {where: 8, ("in", 1): 5}
    with open_state(tmp_path / "0_0") as state:
        assert state.offsets("s") == {where: 8, ("in", 1): 5}


def test_a_spill_sends_to_the_log_first(tmp_path: Path) -> None:
    """Of one hot key little is staged, but all of it waits for the log."""
    with open_state(
        tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path), uncommitted_max_bytes=1000
    ) as state:
        store = state.open(stores.key_value("s"))
        for number in range(100):
            store.put(b"k", b"%099d" % number)
        assert 90 <= len(logged(tmp_path)) < 100
        with open_log(tmp_path) as log:
            assert store.offsets()["app-s-changelog", 0] == log.high_watermark - 1
        state.close()
    rows = logged(tmp_path)
    with open_state(tmp_path / "0_0", changelog=logs(tmp_path)) as state:
        assert state.open(stores.key_value("s")).get(b"k") == rows[-1][1]


@pytest.mark.parametrize(
    "spec", [stores.key_value("s"), stores.versioned_key_value("s", 1000)], ids=lambda s: s.shape
)
def test_a_transaction_that_waits_with_too_much_is_refused(tmp_path: Path, spec: StoreSpec) -> None:
    more = {"timestamp": 5} if spec.shape == "versioned" else {}
    with open_state(
        tmp_path / "0_0",
        engine="rocksdb",
        changelog=logs(tmp_path),
        transactional=True,
        uncommitted_max_bytes=1000,
    ) as state:
        store = state.open(spec)
        store.put(b"k", b"1" * 900, **more)
        with pytest.raises(
            UncommittedLimitError, match="changes for the changelog app-s-changelog"
        ):
            store.put(b"k", b"2" * 900, **more)
        assert logged(tmp_path) == []
        state.commit()
        assert [row[1] for row in logged(tmp_path)] == [b"1" * 900]
        found = store.get(b"k")
        assert getattr(found, "value", found) == b"1" * 900


class Failing:
    """A log in memory that fails when it is told to."""

    topic, partition = "log", 4
    start_offset = 0

    def __init__(self) -> None:
        self.sent = RecordColumns()
        self.high_watermark = 0
        self.error: Exception | None = None

    def extend(self, records: RecordColumns) -> None:
        self.sent.extend(records, self.sent.next_offset)

    def commit(self) -> int:
        if self.error is not None:
            raise self.error
        self.high_watermark = self.sent.next_offset
        return self.high_watermark

    def read(self, from_offset: int | None = None) -> Any:
        return iter([self.sent] if len(self.sent) else [])

    def close(self) -> None:
        raise AssertionError("it is not the state's to close")


def test_where_the_log_fails_no_row_is_written_and_nothing_is_lost(tmp_path: Path) -> None:
    log = Failing()
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=log) as state:
        store = state.open(stores.key_value("s"))
        store.put(b"a", b"1")
        log.error = StorageFullError("full")
        with pytest.raises(StorageFullError):
            state.commit({("in", 0): 1})
        with open_state(tmp_path / "0_0", read_only=True) as reader:
            assert reader.open(stores.key_value("s")).get(b"a") is None
        assert store.offsets() == {}
        log.error = None
        store.put(b"b", b"2")
        state.commit({("in", 0): 2})
        assert store.offsets() == {("in", 0): 2, ("log", 4): 5}
    sent = without_marks(log.sent)
    assert [(r.key, r.value) for r in sent] == [(b"a", b"1"), (b"b", b"2")]
    assert isinstance(sent[0], LogRecord)


def test_a_log_that_outlives_its_state_forgets_what_that_discards(
    tmp_path: Path, monkeypatch: Any
) -> None:
    with FileChangelog(tmp_path, "app-s-changelog") as log:
        state = open_state(tmp_path / "0_0", engine="memory", changelog=log)
        state.open(stores.key_value("s")).put(b"k", b"1")
        with monkeypatch.context() as failing:
            failing.setattr(log._writer, "write", raising(StorageFullError("full")))
            with pytest.raises(StorageFullError):
                state.commit()
        assert log.pending_bytes == 2
        state.close()
        assert log.pending_bytes == 0
        state.close()
        assert log.commit() == 0


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> None:
        raise error

    return call


def test_where_rows_fail_the_log_is_not_sent_twice(tmp_path: Path, monkeypatch: Any) -> None:
    log = Failing()

    def fail(*_: object, **__: object) -> None:
        raise EngineError("no")

    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=log) as state:
        store = state.open(stores.key_value("s"))
        store.put(b"a", b"1")
        monkeypatch.setattr(type(state._stores["s"]._storage), "write", fail)
        with pytest.raises(EngineError):
            state.commit()
        monkeypatch.undo()
        state.commit()
        assert store.offsets() == {("log", 4): 0}
        monkeypatch.setattr(type(state._stores["s"]._storage), "write", fail)
        with pytest.raises(EngineError):
            state.commit({("in", 0): 1})
        monkeypatch.undo()
        state.commit({("in", 0): 1})
        assert store.offsets() == {("in", 0): 1, ("log", 4): 1}
    assert len(log.sent) == 2


def test_one_log_is_one_stores(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=Failing()) as state:
        state.open(stores.key_value("s"))
        with pytest.raises(SpecError, match="the changelog log-4 already belongs to the store 's'"):
            state.open(stores.key_value("t"))


def test_restoring_by_hand_a_store_that_logs_is_refused(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path)) as state:
        with pytest.raises(StateError, match="writes to the changelog app-s-changelog, so"):
            state.restore(spec, Failing())
        state.open(spec).put(b"a", b"1")
        with pytest.raises(StateError, match=r"2 bytes of uncommitted writes\. Commit"):
            state.restore(spec, Failing())


def test_restoring_a_store_whose_duplicates_were_numbered_is_refused(tmp_path: Path) -> None:
    spec = stores.window("s", 10, 2, retain_duplicates=True)
    with open_state(tmp_path / "0_0", engine="memory") as state:
        assert state.restore(spec, Failing()).records == 0
        with pytest.raises(StateError, match="retains duplicates and is already open"):
            state.restore(spec, Failing())


@pytest.mark.parametrize(("task", "partition"), [("0_3", 3), ("12_0", 0), ("topology__1_25", 25)])
def test_a_task_directory_tells_its_changelogs(tmp_path: Path, task: str, partition: int) -> None:
    spec = stores.key_value("s").with_changelog({"segment.bytes": "1000"})
    with open_state(tmp_path / "shop" / task, engine="memory", changelog=tmp_path / "l") as state:
        log = state.open(spec)._context and state._logs.opened[0]
        assert isinstance(log, FileChangelog)
        assert log.path == tmp_path / "l" / f"shop-s-changelog-{partition}"
        assert log.config.segment_bytes == 1000


def test_a_directory_that_tells_no_partition_is_refused(tmp_path: Path) -> None:
    with (
        open_state(tmp_path / "orders", engine="memory", changelog=tmp_path) as state,
        pytest.raises(SpecError, match="is not named after a task, such as 0_3"),
    ):
        state.open(stores.key_value("s"))
    chosen = ChangelogDirectory(tmp_path, application_id="a", partition=7)
    with open_state(tmp_path / "orders", engine="memory", changelog=chosen) as state:
        state.open(stores.key_value("s"))
        assert (tmp_path / "a-s-changelog-7").is_dir()


def test_a_brokers_address_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"pass a kstore_core\.changelog\.KafkaChangelogs"):
        open_state(tmp_path / "0_0", engine="memory", changelog="kafka://127.0.0.1:9092")
    assert not (tmp_path / "0_0").exists()


def test_topic_settings(tmp_path: Path) -> None:
    spec = stores.key_value("s").with_changelog({"cleanup.policy": "delete"})
    assert spec.changelog == (("cleanup.policy", "delete"),)
    with pytest.raises(SpecError, match="name and the value of a setting must be str"):
        stores.key_value("s").with_changelog({"segment.bytes": 5})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="topic_config must be a mapping"):
        stores.key_value("s").with_changelog("compact")  # type: ignore[arg-type]
    unknown = stores.key_value("s").with_changelog({"min.insync.replicas": "2"})
    with (
        open_state(tmp_path / "0_0", engine="memory", changelog=tmp_path) as state,
        pytest.raises(SpecError, match=r"the setting min\.insync\.replicas=2"),
    ):
        state.open(unknown)


def test_a_store_that_cannot_be_opened_lets_its_log_go(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path)) as state:
        state.open(stores.key_value("s"))
        state.commit()
    with open_state(tmp_path / "0_0", changelog=logs(tmp_path)) as state:
        with pytest.raises(SpecError):
            state.open(stores.versioned_key_value("s", 10))
        with pytest.raises(SpecError):
            state.open(stores.versioned_key_value("s", 10))
        state.open(stores.key_value("s"))
        other = tmp_path / "1_0"
        with (
            open_state(other, engine="memory", changelog=logs(tmp_path)) as second,
            pytest.raises(EngineLockedError),
        ):
            second.open(stores.key_value("s"))


@pytest.mark.parametrize("spec", [stores.key_value("s"), stores.session("s", 9)])
def test_of_two_threads_the_later_put_is_the_later_record(
    tmp_path: Path, monkeypatch: Any, spec: StoreSpec
) -> None:
    def put(store: Any, value: bytes) -> None:
        store.put(b"k" if spec.shape == "key_value" else Windowed(b"k", 3, 7), value)

    delay_other_thread(monkeypatch, Journal, "note")
    with open_state(tmp_path / "app" / "0_0", engine="memory", changelog=tmp_path) as state:
        store = state.open(spec)
        with in_other_thread(put, store, b"1"):
            put(store, b"2")
    assert [value for _, value, _, _ in logged(tmp_path)] == [b"1", b"2"]


def test_a_spill_beside_a_commit_is_sent_after_it(tmp_path: Path, monkeypatch: Any) -> None:
    delay_other_thread(monkeypatch, logged_layer, "to_log")
    with open_state(
        tmp_path / "app" / "0_0", engine="memory", changelog=tmp_path, uncommitted_max_bytes=20
    ) as state:
        store = state.open(stores.key_value("s"))
        store.put(b"k", b"1")
        with in_other_thread(state.commit):
            store.put(b"k", b"2")
            store.put(b"l", b"x" * 20)
    assert [value for _, value, _, _ in logged(tmp_path)] == [b"1", b"2", b"x" * 20]


def delay_other_thread(monkeypatch: Any, owner: Any, name: str) -> None:
    """Have a function take longer in every thread but this one."""
    function = getattr(owner, name)

    def delayed(*args: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.3)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, delayed)


@contextmanager
def in_other_thread(work: Callable[..., Any], *args: Any) -> Iterator[None]:
    """A call that has begun when the block does, and has ended after it."""
    other = threading.Thread(target=work, args=args)
    other.start()
    time.sleep(0.1)
    yield
    other.join()

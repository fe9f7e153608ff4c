"""The state directory: opened, committed, read, closed, failed, forked and killed."""

import datetime as dt

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.engine import DURABILITY_LEVELS
from kstore_core.errors import (
    KStoreError,
    SpecError,
    StateError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.system.lock import LOCK_FILE
from kstore_memory import MemoryEngine
from tests.support.fingerprints import fingerprint

PLAIN = stores.key_value("s")
OTHER = stores.key_value("other")
RATES = stores.versioned_key_value("rates", 1000)
HEADERS = stores.timestamped_key_value_with_headers("h", key=serdes.UTF8)


def items(home, spec=PLAIN):
    with home.open(read_only=True) as state:
        return list(state.open(spec).all())


# Opening.


def test_the_engine_is_the_one_that_the_directory_records(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(PLAIN).put(b"k", b"v")
    with open_state(tmp_path) as state:
        assert state.engine.name == "rocksdb"
        assert state.open(PLAIN).get(b"k") == b"v"
    with open_state(tmp_path, read_only=True) as state:
        assert state.open(PLAIN).get(b"k") == b"v"


def test_without_a_record_kafkas_layout_means_rocksdb(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(PLAIN).put(b"k", b"v")
    (tmp_path / LOCK_FILE).unlink()
    with open_state(tmp_path, read_only=True) as state:
        assert state.open(PLAIN).get(b"k") == b"v"


@pytest.mark.parametrize("read_only", [False, True])
def test_without_any_sign_the_engine_has_to_be_given(tmp_path, read_only):
    (tmp_path / "rocksdb").mkdir()
    (tmp_path / "notes.txt").write_text("CURRENT")
    with pytest.raises(SpecError, match='Pass engine="rocksdb"'):
        open_state(tmp_path, read_only=read_only)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "rocksdb"]


def test_an_unknown_recorded_engine_is_not_guessed_around(tmp_path):
    (tmp_path / LOCK_FILE).write_text('{"engine": "lost", "pid": null}')
    with pytest.raises(LookupError, match="no engine named 'lost'"):
        open_state(tmp_path)


def test_a_directory_is_made_with_its_parents(tmp_path):
    with open_state(tmp_path / "a" / "b" / "any name é", engine="rocksdb") as state:
        state.open(PLAIN).put(b"k", b"v")
    with open_state(str(tmp_path / "a" / "b" / "any name é")) as state:
        assert state.open(PLAIN).get(b"k") == b"v"


def test_reading_needs_a_directory(tmp_path):
    with pytest.raises(StateError, match="no state directory"):
        open_state(tmp_path / "nowhere", engine="rocksdb", read_only=True)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"durability": "forever"}, ValueError),
        ({"durability": None}, ValueError),
        ({"changelog": "logs", "read_only": True}, UnsupportedError),
        ({"changelog": 5}, TypeError),
        ({"colour": "red"}, TypeError),
        ({"path": 5}, TypeError),
        ({"path": None}, TypeError),
        ({"uncommitted_max_bytes": "64"}, TypeError),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else given.__name__,
)
def test_a_wrong_argument_is_refused(tmp_path, arguments, error):
    with pytest.raises(error):
        open_state(**{"path": tmp_path, "engine": "memory", **arguments})


@pytest.mark.parametrize("durability", DURABILITY_LEVELS)
def test_every_durability_level_keeps_what_was_committed(home, durability):
    with home.open(durability=durability) as state:
        state.open(PLAIN).put(b"k", b"v")
        state.commit({("t", 0): 1})
        state.open(PLAIN).put(b"l", b"w")
    with home.open() as state:
        assert state.offsets() == {("t", 0): 1}
        assert list(state.open(PLAIN).all()) == [(b"k", b"v"), (b"l", b"w")]


@pytest.mark.parametrize("spec", [None, "s", {"name": "s"}, stores.key_value, object()])
def test_only_a_spec_opens_a_store(spec):
    with open_state("x", engine="memory") as state, pytest.raises(TypeError, match="StoreSpec"):
        state.open(spec)


def test_stores_are_those_that_are_open_or_on_disk(home):
    with home.open() as state:
        assert state.stores() == []
        state.open(PLAIN)
        state.open(OTHER)
        assert state.stores() == ["other", "s"]
    with home.open(read_only=True) as state:
        assert state.stores() == ["other", "s"]


def test_a_store_whose_open_failed_can_be_opened_as_what_it_is(home):
    with home.open() as state:
        state.open(PLAIN).put(b"k", b"v")
    with home.open() as state:
        with pytest.raises(SpecError):
            state.open(stores.versioned_key_value("s", 10))
        assert state.open(PLAIN).get(b"k") == b"v"


def test_what_is_no_store_is_read_past(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(PLAIN)
        state.commit({("t", 0): 1})
        for name in ("my backup", "no-database"):
            (tmp_path / "rocksdb" / name).mkdir()
        (tmp_path / "rocksdb" / "my backup" / "CURRENT").write_text("MANIFEST-000001")
        assert state.offsets() == {("t", 0): 1}


def test_a_store_does_not_leave_its_root_by_a_link(tmp_path):
    (tmp_path / "root" / "rocksdb").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "rocksdb" / "s").symlink_to(tmp_path / "outside")
    with open_state(tmp_path / "root", engine="rocksdb") as state, pytest.raises(KStoreError):
        state.open(PLAIN)
    assert list((tmp_path / "outside").iterdir()) == []


# Leaving.


def test_leaving_normally_commits(home):
    with home.open() as state:
        state.open(PLAIN).put(b"k", b"v")
    assert items(home) == [(b"k", b"v")]


def test_leaving_by_an_exception_discards(home):
    with home.open() as state:
        state.open(PLAIN).put(b"k", b"committed")

    def fail():
        with home.open() as state:
            state.open(PLAIN).put(b"k", b"lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert items(home) == [(b"k", b"committed")]


def test_closing_discards_and_may_be_done_twice(home):
    state = home.open()
    state.open(PLAIN).put(b"k", b"v")
    state.close()
    state.close()
    with home.open() as state:
        assert list(state.open(PLAIN).all()) == []
        state.close()
    assert "closed" in repr(state)


def test_everything_is_refused_after_close(home):
    state = home.open()
    store, rates = state.open(PLAIN), state.open(RATES)
    store.put(b"k", b"v")
    rates.put(b"k", b"v", timestamp=1)
    state.commit()
    open_scans = store.all(), rates.all(), rates.all(as_of=1)
    begun = store.all()
    begun.peek()
    state.close()
    for use in (
        lambda: state.open(PLAIN),
        lambda: state.stores(),
        lambda: state.offsets(),
        lambda: state.stored_spec("s"),
        lambda: state.commit(),
        lambda: state.record().__enter__(),
        lambda: store.get(b"k"),
        lambda: store.get_many([b"k"]),
        lambda: store.put(b"k", b"v"),
        lambda: store.put_if_absent(b"k", b"v"),
        lambda: store.put_all([(b"k", b"v")]),
        lambda: store.delete(b"k"),
        lambda: store.range(None, None),
        lambda: store.prefix_scan(b"k"),
        lambda: store.approximate_num_entries(),
        lambda: rates.get(b"k"),
        lambda: rates.get(b"k", as_of=1),
        lambda: rates.get_many([b"k"]),
        lambda: rates.put(b"k", b"v", timestamp=2),
        lambda: rates.delete(b"k", timestamp=2),
        lambda: rates.history(b"k"),
        lambda: rates.all(as_of=1),
        *(lambda scan=scan: next(scan) for scan in (*open_scans, begun)),
        lambda: begun.peek(),
        lambda: begun.to_arrow(),
    ):
        with pytest.raises(StoreClosedError):
            use()
    begun.close()
    assert repr(store)
    assert store.name == "s"


def test_a_commit_of_nothing_is_fine(home):
    with home.open() as state:
        state.commit()
        state.open(PLAIN)
        state.commit()
        state.commit({})
    assert items(home) == []


def test_a_commit_inside_a_scan_does_not_disturb_it(home):
    with home.open() as state:
        store = state.open(PLAIN)
        for number in range(100):
            store.put(b"%03d" % number, b"v")
        seen = []
        for key, _ in store.all():
            seen.append(key)
            store.put(key + b"x", b"new")
            store.delete(key)
            if len(seen) % 10 == 0:
                state.commit({("t", 0): len(seen)})
        assert seen == [b"%03d" % number for number in range(100)]
        assert [key for key, _ in store.all()] == [key + b"x" for key in seen]


def test_closing_inside_a_scan_ends_it_with_an_error(home):
    state = home.open()
    store = state.open(PLAIN)
    for number in range(100):
        store.put(b"%03d" % number, b"v")
    state.commit()
    seen = []

    def read():
        for key, _ in store.all():
            seen.append(key)
            state.close()

    with pytest.raises(StoreClosedError):
        read()
    assert seen == [b"000"]


# Reading only.


def test_reading_writes_nothing(home):
    with home.open() as state:
        state.open(PLAIN).put_all((b"%04d" % number, b"x" * 50) for number in range(5000))
        state.open(RATES).put(b"k", b"v", timestamp=5)
    before = fingerprint(home.path) if home.path.exists() else None
    with home.open(read_only=True) as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        assert len(list(store.all())) == 5000
        assert rates.history(b"k")
        assert state.offsets() == {}
        assert state.stores() == ["rates", "s"]
        assert state.stored_spec("s") is not None
        for write in (
            lambda: store.put(b"k", b"v"),
            lambda: store.put_all([(b"k", b"v")]),
            lambda: store.delete(b"0000"),
            lambda: store.put_if_absent(b"k", b"v"),
            lambda: rates.put(b"k", b"v", timestamp=9),
            lambda: rates.delete(b"k", timestamp=9),
            lambda: state.commit(),
            lambda: state.commit({("t", 0): 1}),
            lambda: state.send_changes({("t", 0): 1}),
        ):
            with pytest.raises(UnsupportedError):
                write()
        assert store.get(b"k") is None
        assert rates.stream_time == 5
        with pytest.raises(StateError, match=r"has no store 'other'; it has: .+ read_only=True"):
            state.open(OTHER)
    assert (fingerprint(home.path) if home.path.exists() else None) == before


def test_reading_works_beside_a_live_writer(home):
    with home.open() as state:
        store = state.open(PLAIN)
        store.put(b"a", b"1")
        state.commit({("t", 0): 1})
        store.put(b"b", b"2")
        with home.open(read_only=True) as reader:
            assert list(reader.open(PLAIN).all()) == [(b"a", b"1")]
            assert reader.offsets() == {("t", 0): 1}
        state.commit({("t", 0): 2})
        assert items(home) == [(b"a", b"1"), (b"b", b"2")]
        store.put(b"c", b"3")
    assert len(items(home)) == 3


# Odd uses.


@pytest.mark.parametrize("arguments", [{}, {"engine": "rocksdb"}, {"engine": "lmdb"}], ids=str)
@pytest.mark.parametrize("path", ["nope", "nope/0_0", "file", "link"])
def test_a_reader_of_a_directory_that_is_not_there(tmp_path, path, arguments):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(StateError, match=r"no state directory at .*Pass the path of an existing"):
        open_state(tmp_path / path, read_only=True, **arguments)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_closed_state_is_not_entered_again(home, read_only):
    with home.open() as state:
        state.open(PLAIN)
    state = home.open(read_only=read_only)
    state.close()
    with pytest.raises(StoreClosedError, match="has been closed"), state:
        pytest.fail("the block was entered")


def test_the_record_around_a_state_that_was_closed_inside_it(home):
    state = home.open()
    with state.record(topic="t", partition=0, offset=1):
        state.close()


def test_an_engine_object_opens_the_same_rows_again():
    engine = MemoryEngine()
    with open_state("x", engine=engine) as state:
        state.open(PLAIN).put(b"k", b"v")
    with open_state("x", engine=engine) as state:
        assert state.open(PLAIN).get(b"k") == b"v"
    with open_state("y", engine=engine) as state:
        assert state.open(PLAIN).get(b"k") is None
    with open_state("x", engine="memory") as state:
        assert state.open(PLAIN).get(b"k") is None


def test_memory_leaves_no_trace_on_disk(tmp_path):
    with open_state(tmp_path / "0_0", engine="memory") as state:
        state.open(PLAIN).put(b"k", b"v")
    assert not (tmp_path / "0_0").exists()


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_state("0_0", engine="rocksdb") as state:
        monkeypatch.chdir("/")
        state.open(PLAIN).put(b"k", b"v")
        assert state.path == tmp_path / "0_0"
    assert (tmp_path / "0_0" / "rocksdb" / "s").is_dir()


def test_times_and_headers_reach_the_disk(home):
    moment = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    with home.open() as state:
        store = state.open(HEADERS)
        store.put("k", b"v", timestamp=moment, headers=[("trace", b"1"), ("trace", None)])
    with home.open() as state:
        record = state.open(HEADERS).get("k")
        assert record.timestamp == int(moment.timestamp() * 1000)
        assert list(record.headers) == [("trace", b"1"), ("trace", None)]


@pytest.mark.parametrize("name", ["rocksdb", "offsets", ".kstore", "-", "a" * 249])
def test_odd_names_are_stores_like_others(home, name):
    spec = stores.key_value(name)
    with home.open() as state:
        state.open(spec).put(b"k", b"v")
    with home.open() as state:
        assert state.stores() == [name]
        assert state.open(spec).get(b"k") == b"v"


def test_another_engine_than_the_recorded_one_is_refused(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(PLAIN).put(b"k", b"v")
    with pytest.raises(SpecError, match="written with the engine 'rocksdb'"):
        open_state(tmp_path, engine="memory")
    with open_state(tmp_path, engine="rocksdb", read_only=True) as state:
        assert state.open(PLAIN).get(b"k") == b"v"


def test_an_empty_path_is_no_directory():
    with pytest.raises(SpecError, match="empty"):
        open_state("", engine="rocksdb")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_what_can_be_no_path_is_refused(path):
    with pytest.raises(SpecError, match=r"is not a valid path: .*; pass another path"):
        open_state(path, engine="rocksdb")


@pytest.mark.parametrize("timeout", [None, "5", [], float("nan"), -1])
def test_a_timeout_is_a_number_of_seconds(tmp_path, timeout):
    with pytest.raises(
        SpecError, match="lock_timeout_s must be a number of seconds, 0 or more, not"
    ):
        open_state(tmp_path, engine="memory", lock_timeout_s=timeout)


@pytest.mark.parametrize(
    ("partition", "error"), [(None, TypeError), ("x", TypeError), (-2, ValueError)]
)
def test_a_partition_of_no_topic_is_checked_too(tmp_path, partition, error):
    with open_state(tmp_path, engine="memory") as state:
        with (
            pytest.raises(error, match="a partition number"),
            state.record(partition=partition),
        ):
            pass
        with state.record(partition=-1, timestamp=5):
            pass

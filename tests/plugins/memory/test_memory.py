"""The memory engine, held to the text of the SPI."""

import gc
import os
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import (
    EngineLockedError,
    ForkedHandleError,
    SpecError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_memory import MemoryEngine
from tests.typed.processes import in_a_child

ROOT = Path("state/0_0")


@pytest.fixture
def engine():
    return MemoryEngine()


@pytest.fixture
def database(engine):
    database = engine.open(ROOT, "s")
    database.write({"default": Rows([b"a", b"b", b"c"], [b"1", b"2", b"3"])})
    database.namespace("other")
    return database


def items(chunks):
    found = []
    for keys, values in chunks:
        assert keys
        found += zip(keys, values, strict=True)
    return found


def rows(database, namespace="default"):
    return items(database.namespace(namespace).scan())


def test_what_it_can_do(engine):
    assert engine.name == "memory"
    assert not engine.capabilities.persistent
    assert engine.capabilities.process_local
    assert engine.capabilities.empty_keys
    assert engine.capabilities.max_key_bytes is None
    with pytest.raises(SpecError):
        MemoryEngine({"size": 1})


# Reading.


def test_lookups(database):
    namespace = database.namespace("default")
    assert namespace.name == "default"
    assert namespace.get(b"a") == b"1"
    assert namespace.get(b"x") is None
    assert namespace.get_many([b"c", b"x", b"a", b"a"]) == [b"3", None, b"1", b"1"]
    assert namespace.approximate_count() == 3


@pytest.mark.parametrize(
    ("lo", "hi", "wanted"),
    [(None, None, b"abc"), (b"b", None, b"bc"), (None, b"b", b"a"), (b"a", b"c", b"ab"),
     (b"b", b"b", b""), (b"c", b"a", b""), (b"", b"\xff", b"abc"), (b"aa", b"bb", b"b")],
)  # fmt: skip
def test_scans_are_half_open_and_both_ways(database, lo, hi, wanted):
    namespace = database.namespace("default")
    keys = [bytes([key]) for key in wanted]
    assert [key for key, _ in items(namespace.scan(lo, hi))] == keys
    assert [key for key, _ in items(namespace.scan(lo, hi, reverse=True))] == keys[::-1]
    first = namespace.first(lo, hi)
    last = namespace.first(lo, hi, reverse=True)
    assert (first and first[0], last and last[0]) == (keys[0], keys[-1]) if keys else (None, None)


def test_a_scan_is_as_of_its_call(database):
    namespace = database.namespace("default")
    forward, backward = namespace.scan(), namespace.scan(reverse=True)
    database.write({"default": Rows([b"a", b"bb"], [None, b"new"])})
    assert [key for key, _ in items(forward)] == [b"a", b"b", b"c"]
    assert [key for key, _ in items(backward)] == [b"c", b"b", b"a"]
    assert [key for key, _ in rows(database)] == [b"b", b"bb", b"c"]


# Writing.


def test_a_batch_deletes_ranges_first(database):
    batch = Rows([b"b", b"d"], [b"again", b"4"], [(b"b", None), (b"a", b"a\0")])
    database.write({"default": batch})
    assert rows(database) == [(b"b", b"again"), (b"d", b"4")]


def test_a_batch_is_not_kept(database):
    batch = Rows([b"x"], [b"1"])
    database.write({"default": batch})
    batch.keys[0] = b"y"
    batch.values.clear()
    assert database.namespace("default").get(b"x") == b"1"


def test_an_inverted_range_deletes_nothing(database):
    database.write({"default": Rows(deleted_ranges=[(b"c", b"a"), (b"b", b"b")])})
    assert len(rows(database)) == 3


@pytest.mark.parametrize(
    "bad",
    [
        Rows(["text"], [b"1"]),
        Rows([b"k"], ["text"]),
        Rows([b"k"], [5]),
        Rows([None], [b"1"]),
        Rows([b"k"], []),
        Rows([bytearray(b"k")], [b"1"]),
        Rows(deleted_ranges=[("q", None)]),
        Rows(deleted_ranges=[(b"q", "z")]),
        Rows(deleted_ranges=[(None, b"z")]),
        Rows(deleted_ranges=[(b"q",)]),
        5,
        None,
    ],
    ids=repr,
)
def test_a_batch_that_is_wrong_anywhere_changes_nothing(database, bad):
    good = Rows([b"a"], [b"changed"], [(b"b", None)])
    for batch in ({"default": good, "other": bad}, {"other": bad, "default": good}):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            database.write(batch)
        assert rows(database) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
        assert rows(database, "other") == []


def test_a_batch_for_a_namespace_that_is_not_there_changes_nothing(database):
    with pytest.raises(KeyError):
        database.write({"default": Rows([b"a"], [b"x"]), "nowhere": Rows([b"a"], [b"x"])})
    assert database.namespace("default").get(b"a") == b"1"
    assert "nowhere" not in database.namespaces()


# Loading.


def test_a_load_replaces_and_counts(database):
    chunks = [([b"a", b"aa"], [b"x", b"y"]), ([], []), ((b"z",), (b"",))]
    assert database.load("default", iter(chunks)) == 3
    assert rows(database) == [(b"a", b"x"), (b"aa", b"y"), (b"b", b"2"), (b"c", b"3"), (b"z", b"")]
    assert database.load("new", [([b"k"], [b"v"])]) == 1
    assert rows(database, "new") == [(b"k", b"v")]


@pytest.mark.parametrize(
    "chunks",
    [
        [([b"b", b"a"], [b"1", b"2"])],
        [([b"a", b"a"], [b"1", b"2"])],
        [([b"a"], [b"1"]), ([b"a"], [b"2"])],
        [([b"b"], [b"1"]), ([b"a"], [b"2"])],
        [([b"a"], [])],
    ],
)
def test_a_load_that_does_not_ascend_is_refused(database, chunks):
    with pytest.raises(ValueError, match=r"ascending|keys|shorter"):
        database.load("other", chunks)


@pytest.mark.parametrize(
    "chunk", [([None], [b"1"]), (["k"], [b"1"]), ([b"k"], [None]), ([b"k"], ["v"])]
)
def test_a_load_takes_bytes_only(database, chunk):
    with pytest.raises(TypeError):
        database.load("other", [chunk])
    assert rows(database, "other") == []


# Namespaces.


def test_namespaces_come_and_go(database):
    assert set(database.namespaces()) == {"default", "other"}
    database.write({"other": Rows([b"k"], [b"v"])})
    database.drop_namespace("other")
    assert database.namespaces() == ["default"]
    assert rows(database, "other") == []


def test_the_default_namespace_stays(database):
    with pytest.raises(UnsupportedError, match="default"):
        database.drop_namespace("default")
    with pytest.raises(KeyError):
        database.drop_namespace("nowhere")


# Snapshots and checkpoints.


def test_a_snapshot_is_one_moment_of_all_namespaces(database):
    with database.snapshot() as snapshot:
        database.write({"default": Rows([b"a", b"d"], [None, b"4"]), "other": Rows([b"k"], [b"v"])})
        database.namespace("later")
        then = snapshot.namespace("default")
        assert items(then.scan()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
        assert items(then.scan(b"b", None, reverse=True)) == [(b"c", b"3"), (b"b", b"2")]
        assert then.get(b"a") == b"1"
        assert then.get(b"d") is None
        assert then.get_many([b"d", b"b"]) == [None, b"2"]
        assert then.first() == (b"a", b"1")
        assert then.approximate_count() == 3
        assert items(snapshot.namespace("other").scan()) == []
        with pytest.raises(KeyError):
            snapshot.namespace("later")


def test_a_closed_snapshot_is_over(database):
    snapshot = database.snapshot()
    then = snapshot.namespace("default")
    scan = then.scan()
    snapshot.close()
    snapshot.close()
    for use in (
        lambda: snapshot.namespace("default"),
        lambda: then.get(b"a"),
        lambda: then.get_many([b"a"]),
        lambda: items(then.scan()),
        lambda: items(scan),
    ):
        with pytest.raises(StoreClosedError):
            use()
    assert len(rows(database)) == 3


def test_a_checkpoint_is_a_database_of_its_own(engine, database):
    target = ROOT.absolute() / "memory" / "copy"
    database.checkpoint(target)
    database.write({"default": Rows([b"a"], [b"changed"])})
    with pytest.raises(FileExistsError):
        database.checkpoint(target)
    copy = engine.open(ROOT, "copy")
    assert rows(copy)[0] == (b"a", b"1")
    copy.write({"default": Rows([b"a"], [b"its own"])})
    assert rows(database)[0] == (b"a", b"changed")
    assert engine.stores(ROOT) == ["copy", "s"]


# Opening and closing.


def test_rows_live_as_long_as_the_engine(engine, database):
    database.close()
    assert rows(engine.open(ROOT, "s")) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert rows(MemoryEngine().open(ROOT, "s")) == []


def test_stores_are_found_by_root(engine, database):
    engine.open(ROOT / "deeper", "t")
    assert engine.stores(ROOT) == ["s"]
    assert engine.stores(ROOT / "deeper") == ["t"]
    assert engine.stores(Path("elsewhere")) == []
    assert engine.stores(ROOT.absolute()) == ["s"]


def test_one_writer_at_a_time(engine, database):
    with pytest.raises(EngineLockedError, match="open for writing") as caught:
        engine.open(ROOT, "s")
    assert caught.value.pid == os.getpid()
    reader = engine.open(ROOT, "s", read_only=True)
    reader.close()
    with pytest.raises(EngineLockedError):
        engine.open(ROOT, "s")
    database.close()
    database.close()
    engine.open(ROOT, "s").close()


def test_a_second_close_does_not_free_the_next_writer(engine, database):
    database.close()
    second = engine.open(ROOT, "s")
    database.close()
    with pytest.raises(EngineLockedError):
        engine.open(ROOT, "s")
    second.close()


def test_reading_only(engine, database):
    with pytest.raises(FileNotFoundError):
        engine.open(ROOT, "nowhere", read_only=True)
    assert engine.stores(ROOT) == ["s"]
    reader = engine.open(ROOT, "s", read_only=True)
    for write in (
        lambda: reader.write({"default": Rows([b"a"], [b"x"])}),
        lambda: reader.load("default", [([b"a"], [b"x"])]),
        lambda: reader.drop_namespace("other"),
    ):
        with pytest.raises(UnsupportedError):
            write()
    with pytest.raises(KeyError):
        reader.namespace("nowhere")
    database.write({"default": Rows([b"a"], [b"new"])})
    assert reader.namespace("default").get(b"a") == b"new"
    reader.sync()


def test_after_close_everything_is_over(database):
    namespace = database.namespace("default")
    get, scan = namespace.get, namespace.scan()
    begun = namespace.scan()
    snapshot = database.snapshot()
    then = snapshot.namespace("default")
    database.close()
    for use in (
        database.namespaces,
        lambda: database.namespace("default"),
        lambda: database.drop_namespace("other"),
        lambda: database.write({}),
        lambda: database.load("default", []),
        database.snapshot,
        lambda: database.checkpoint(Path("copy")),
        database.sync,
        lambda: namespace.get(b"a"),
        lambda: namespace.get_many([b"a"]),
        namespace.scan,
        namespace.first,
        namespace.approximate_count,
        lambda: items(scan),
        lambda: items(begun),
        lambda: snapshot.namespace("default"),
        lambda: items(then.scan()),
        lambda: then.get(b"a"),
    ):
        with pytest.raises(StoreClosedError):
            use()
    del get
    snapshot.close()


def test_a_scan_may_be_closed(database):
    scan = database.namespace("default").scan()
    close = getattr(scan, "close", None)
    if close is not None:
        close()
        close()
    del scan
    gc.collect()


def test_a_fork_is_refused(engine, database):
    for use in (
        lambda: database.write({"default": Rows([b"a"], [b"x"])}),
        lambda: database.load("default", []),
        database.namespaces,
        database.snapshot,
        lambda: database.namespace("default"),
    ):
        assert in_a_child(use) == ForkedHandleError.__name__
    assert rows(database)[0] == (b"a", b"1")


def test_a_fork_may_have_databases_of_its_own(engine, database):
    def use():
        own = engine.open(ROOT, "own")
        own.write({"default": Rows([b"k"], [b"v"])})
        found = rows(own)
        own.close()
        return found

    assert in_a_child(use) == repr([(b"k", b"v")])
    assert engine.stores(ROOT) == ["s"]

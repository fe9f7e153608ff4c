"""What is the memory engine's own; the rest is the contract's."""

import os
import threading
from pathlib import Path

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineLockedError, UnsupportedError
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
    return database


def rows(database, namespace="default"):
    chunks = database.namespace(namespace).scan()
    return [row for keys, values in chunks for row in zip(keys, values, strict=True)]


def test_what_it_can_do(engine):
    assert engine.name == "memory"
    assert not engine.capabilities.persistent
    assert engine.capabilities.process_local
    assert engine.capabilities.empty_keys
    assert engine.capabilities.max_key_bytes is None
    assert engine.capabilities.checkpoint


def test_rows_live_as_long_as_the_engine(engine, database):
    database.close()
    assert rows(engine.open(ROOT, "s")) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert rows(MemoryEngine().open(ROOT, "s")) == []


def test_a_root_is_the_same_however_it_is_written(engine, database):
    engine.open(ROOT / "deeper", "t")
    assert engine.stores(ROOT) == engine.stores(ROOT.absolute()) == ["s"]
    assert engine.stores(ROOT / "deeper") == ["t"]
    assert not ROOT.exists()


def test_the_holder_is_this_process(engine, database):
    with pytest.raises(EngineLockedError, match="open for writing") as caught:
        engine.open(ROOT, "s")
    assert caught.value.pid == os.getpid()


def test_a_reader_sees_what_is_written_later(engine, database):
    reader = engine.open(ROOT, "s", read_only=True)
    database.write({"default": Rows([b"a"], [b"new"])})
    assert reader.namespace("default").get(b"a") == b"new"


def test_a_checkpoint_is_a_store_of_the_same_engine_object(engine, database):
    database.checkpoint(ROOT.absolute() / "memory" / "copy")
    assert engine.stores(ROOT) == ["copy", "s"]
    assert rows(engine.open(ROOT, "copy")) == rows(database)


def test_a_fork_may_have_databases_of_its_own(engine, database):
    def use():
        own = engine.open(ROOT, "own")
        own.write({"default": Rows([b"k"], [b"v"])})
        found = rows(own)
        own.close()
        return found

    assert in_a_child(use) == repr([(b"k", b"v")])
    assert engine.stores(ROOT) == ["s"]


def test_snapshots_are_taken_while_namespaces_come_and_go(database):
    over = threading.Event()

    def churn():
        while not over.is_set():
            for number in range(50):
                database.namespace(f"n{number}")
            for number in range(50):
                database.drop_namespace(f"n{number}")

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(3000):
            with database.snapshot() as snapshot:
                assert snapshot.namespace("default").get(b"a") == b"1"
    finally:
        over.set()
        thread.join()


def test_messages_name_the_store(database):
    with pytest.raises(UnsupportedError, match=r"'default' of .*state/0_0/memory/s cannot be"):
        database.drop_namespace("default")
    with pytest.raises(TypeError, match=r"rows of .*state/0_0/memory/s must be bytes, not int"):
        database.write({"default": Rows([1], [b"v"])})

"""A faulty engine fails as told, and kstore above it loses nothing by it."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Rows
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    StorageFullError,
)
from kstore_core.testing import Faults, FaultyEngine
from kstore_core.testing.faults import OPERATIONS
from kstore_core.testing.kinds import KINDS, SESSION, WINDOW
from kstore_core.testing.store_suite.any_kind import get, get_many, keys, spec
from kstore_core.testing.store_suite.committing import put

EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
ERRORS = [EngineError, StorageFullError, CorruptionError]
EACH_ERROR = pytest.mark.parametrize("error", ERRORS)


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture
def faulty(engine, faults):
    return FaultyEngine(engine_class(engine)(), faults)


@pytest.fixture
def database(faulty, tmp_path):
    database = faulty.open(tmp_path, "s")
    yield database
    database.close()


def rows(chunks):
    return [row for keys, values in chunks for row in zip(keys, values, strict=True)]


# The engine itself.


def test_it_is_the_engine_that_it_wraps(faulty, engine):
    assert faulty.name == engine
    assert faulty.capabilities == engine_class(engine).capabilities


def use(database, operation, tmp_path):
    namespace = database.namespace("default")
    return {
        "open": lambda: database.owner.open(tmp_path, "another").close(),
        "namespace": lambda: database.namespace("another"),
        "drop": lambda: (database.inner.namespace("other"), database.drop_namespace("other")),
        "get": lambda: namespace.get(b"a"),
        "get_many": lambda: namespace.get_many([b"a"]),
        "scan": lambda: namespace.scan(),
        "chunk": lambda: rows(namespace.scan()),
        "write": lambda: database.write({"default": Rows([b"b"], [b"2"])}),
        "load": lambda: database.load("default", [([b"b"], [b"2"])]),
        "sync": lambda: database.sync(),
        "snapshot": lambda: database.snapshot().close(),
        "checkpoint": lambda: database.checkpoint(tmp_path / "copy" / "memory" / "s"),
    }[operation]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_nth_call_fails_before_anything_is_done(database, faults, tmp_path, operation):
    database.write({"default": Rows([b"a"], [b"1"])})
    call = use(database, operation, tmp_path)
    faults.fail(operation, 2, CorruptionError)
    before = faults.counts[operation]
    if operation not in ("open", "checkpoint"):
        call()
    else:
        faults.counts[operation] += 1
    held = rows(database.inner.namespace("default").scan())
    with pytest.raises(CorruptionError, match=rf"planned fault: {operation} number {before + 2}"):
        call()
    assert rows(database.inner.namespace("default").scan()) == held
    call()
    assert faults.counts[operation] == before + 3


def test_a_torn_write_writes_a_part(database, faults):
    batch = {"default": Rows([b"%d" % n for n in range(10)], [b"v"] * 10)}
    faults.tear(1, share=0.3)
    with pytest.raises(EngineError, match="incomplete write"):
        database.write(batch)
    assert len(rows(database.namespace("default").scan())) == 3
    faults.tear(1, share=0.6, error=None)
    database.write(batch)
    assert len(rows(database.namespace("default").scan())) == 6
    database.write(batch)
    assert len(rows(database.namespace("default").scan())) == 10


def test_a_torn_large_write_writes_a_part(database, faults):
    faults.tear(1, share=0.3)
    with pytest.raises(EngineError, match="incomplete write"):
        database.write_large("default", Rows([b"%d" % n for n in range(10)], [b"v"] * 10))
    assert len(rows(database.namespace("default").scan())) == 3


def test_a_slow_call(database, faults):
    faults.delay("get", 0.05)
    begun = time.monotonic()
    database.namespace("default").get(b"a")
    assert time.monotonic() - begun >= 0.05
    faults.calm()


def failures(faults, database, count=200):
    failed = []
    for number in range(count):
        try:
            database.write({"default": Rows([b"k"], [b"v"])})
        except StorageFullError:
            failed.append(number)
    return failed


def test_random_faults_are_the_same_for_the_same_seed(database, faults):
    seen = []
    for seed in (1, 1, 2):
        faults.randomly(seed, 0.3, error=StorageFullError)
        seen.append(failures(faults, database))
    assert seen[0] == seen[1] != seen[2]
    assert 30 < len(seen[0]) < 90
    faults.calm()
    assert failures(faults, database) == []


@pytest.mark.parametrize(("operation", "nth"), [("reed", 1), ("get", 0)])
def test_what_cannot_fail_is_refused(faults, operation, nth):
    with pytest.raises(ValueError, match=r"operation must be one of|at least 1"):
        faults.fail(operation, nth)


def test_what_there_is_none_of_is_neither_slow_nor_random(faults):
    with pytest.raises(ValueError, match="operation must be one of"):
        faults.delay("reed", 1)
    with pytest.raises(ValueError, match="operation must be one of"):
        faults.randomly(1, 0.5, ["write", "reed"])


@pytest.mark.parametrize("share", [-0.1, 1.1, 5, float("nan")])
def test_a_share_is_from_0_to_1(faults, share):
    with pytest.raises(ValueError, match="share must be from 0 to 1"):
        faults.tear(share=share)
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        faults.randomly(1, share)
    assert not faults.armed("write")
    for whole in (0, 1):
        faults.tear(share=whole)


# What stands above it.


def begun(tmp_path, faulty, kind, **arguments) -> tuple[Any, Any]:
    state = open_state(tmp_path / "0_0", engine=faulty, **arguments)
    store = state.open(spec(kind))
    put(kind, store, b"old", b"1")
    state.commit({("t", 0): 1})
    return state, store


@EACH_ERROR
@EACH_KIND
def test_a_commit_that_fails_keeps_what_is_staged(tmp_path, faulty, faults, kind, error):
    state, store = begun(tmp_path, faulty, kind)
    put(kind, store, b"new", b"2")
    for _ in range(3):
        faults.fail("write", 1, error)
        with pytest.raises(error, match="planned fault"):
            state.commit({("t", 0): 2})
        assert keys(kind, store) == [b"new", b"old"]
        assert store.offsets() == {("t", 0): 1}
        assert state.staged_bytes > 0
    put(kind, store, b"newer", b"3")
    state.commit({("t", 0): 3})
    assert state.staged_bytes == 0
    state.close()
    with open_state(tmp_path / "0_0", engine=faulty) as state:
        store = state.open(spec(kind))
        assert keys(kind, store) == [b"new", b"newer", b"old"]
        assert store.offsets() == {("t", 0): 3}


@EACH_KIND
def test_a_crash_after_a_commit_that_failed_is_as_before_it(tmp_path, faulty, faults, kind):
    state, store = begun(tmp_path, faulty, kind)
    put(kind, store, b"new", b"2")
    faults.fail("write")
    with pytest.raises(EngineError):
        state.commit({("t", 0): 2})
    state.close()
    with open_state(tmp_path / "0_0", engine=faulty) as state:
        store = state.open(spec(kind))
        assert keys(kind, store) == [b"old"]
        assert store.offsets() == {("t", 0): 1}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
@EACH_KIND
def test_a_commit_mends_a_write_that_was_torn(tmp_path, faulty, faults, kind, share):
    state, store = begun(tmp_path, faulty, kind)
    for number in range(20):
        put(kind, store, b"%02d" % number, b"v")
    faults.tear(1, share=share)
    with pytest.raises(EngineError, match="incomplete write"):
        state.commit({("t", 0): 2})
    wanted = [*(b"%02d" % number for number in range(20)), b"old"]
    assert keys(kind, store) == wanted
    state.commit({("t", 0): 2})
    state.close()
    with open_state(tmp_path / "0_0", engine=faulty) as state:
        assert keys(kind, state.open(spec(kind))) == wanted


@EACH_ERROR
@EACH_KIND
def test_a_spill_that_fails_loses_nothing(tmp_path, faulty, faults, kind, error):
    state, store = begun(tmp_path, faulty, kind, uncommitted_max_bytes=300)
    written = [b"old"]
    refused = 0
    for number in range(60):
        if number % 7 == 0:
            faults.fail("write", 1, error)
        key = b"%02d" % number
        try:
            put(kind, store, key, b"v" * 20)
        except error:
            refused += 1
            assert keys(kind, store) == sorted(written), "a put that fails leaves no half"
        else:
            written.append(key)
    faults.calm()
    assert refused > 3
    assert keys(kind, store) == sorted(written)
    state.commit({("t", 0): 2})
    state.close()
    with open_state(tmp_path / "0_0", engine=faulty) as state:
        assert keys(kind, state.open(spec(kind))) == sorted(written)


@EACH_KIND
def test_a_read_that_fails_says_so(tmp_path, faulty, faults, kind):
    state, store = begun(tmp_path, faulty, kind)
    for number in range(3000):
        put(kind, store, b"%04d" % number, b"v")
    state.commit()
    reads = {
        "get": lambda: get(kind, store, b"0001"),
        "get_many": lambda: get_many(kind, store, [b"0001", b"0002"]),
        "scan": lambda: keys(kind, store),
        "chunk": lambda: keys(kind, store),
    }
    if kind in (*WINDOW, *SESSION):
        del reads["get_many"]  # which these have not
    for operation, read in reads.items():
        for nth in (1, 2) if operation == "chunk" else (1,):
            faults.fail(operation, nth, CorruptionError)
            with pytest.raises(CorruptionError, match=f"planned fault: {operation}"):
                read()
            assert read(), "and the next read reads"
    assert len(keys(kind, store)) == 3001
    state.close()


@pytest.mark.parametrize("operation", ["open", "write"])
@EACH_KIND
def test_an_open_that_fails_lets_go_of_everything(tmp_path, faulty, faults, kind, operation):
    if operation == "write" and kind in (*WINDOW, *SESSION) and faulty.capabilities.children:
        pytest.skip("a segment in a database of its own is marked as open when it is used")
    state, _ = begun(tmp_path, faulty, kind)
    state.close()
    state = open_state(tmp_path / "0_0", engine=faulty)
    faults.fail(operation)
    with pytest.raises(EngineError, match="planned fault"):
        state.open(spec(kind))
    assert keys(kind, state.open(spec(kind))) == [b"old"]
    state.close()


@pytest.mark.parametrize("seed", range(4))
@EACH_KIND
def test_a_life_of_random_faults_loses_nothing(tmp_path, faulty, faults, kind, seed):
    """Whatever fails, what a call returned from is there, and no commit that failed counts."""
    state, store = begun(tmp_path, faulty, kind, uncommitted_max_bytes=500 if seed % 2 else -1)
    generator = random.Random(seed)
    wanted, committed = {b"old"}, 1
    for number in range(300):
        error = generator.choice(ERRORS)
        faults.randomly(seed * 1000 + number, 0.3, ("write", "get", "chunk"), error)
        try:
            if number % 25 == 24:
                state.commit({("t", 0): number})
                committed = number
            else:
                key = b"%03d" % generator.randrange(100)
                put(kind, store, key, b"v" * 20)
                wanted.add(key)
        except error:
            pass
        faults.calm()
        if number % 10 == 0:
            assert set(keys(kind, store)) == wanted
            assert store.offsets() == {("t", 0): committed}
    state.commit({("t", 0): 1000})
    state.close()
    with open_state(tmp_path / "0_0", engine=faulty) as state:
        assert set(keys(kind, state.open(spec(kind)))) == wanted

"""What an interrupt has left half made is adopted, and what it has half closed is closed."""

import gc

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import EngineLockedError
from kstore_core.testing.interrupter.aims import AtStep
from kstore_rocksdb import RocksDBEngine
from kstore_rocksdb import database as module
from kstore_rocksdb.locks import claim
from kstore_rocksdb.scan import FamilyScan


def opened(root):
    return RocksDBEngine().open(root, "s")


def test_a_family_that_was_made_and_is_not_known_is_adopted(tmp_path):
    database = opened(tmp_path)
    create = database._create

    def interrupted(name):
        create(name)
        raise KeyboardInterrupt

    database._create = interrupted
    with pytest.raises(KeyboardInterrupt):
        database.namespace("offsets")
    database._create = create
    database.namespace("offsets")
    database.write({"offsets": Rows([b"k"], [b"v"])})
    database.close()
    database = opened(tmp_path)
    assert database.namespace("offsets").get(b"k") == b"v"
    database.close()


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("behind", [False, True])
def test_a_close_that_was_interrupted_goes_on(tmp_path, monkeypatch, at, behind):
    database = opened(tmp_path)
    database.namespace("offsets")
    database.write({"offsets": Rows([b"k"], [b"v"]), "default": Rows([b"k"], [b"v"])})
    close, calls = module._close, []

    def interrupted(native, *, flush):
        calls.append(native)
        if behind:
            close(native, flush=flush)
        if len(calls) == at + 1:
            raise KeyboardInterrupt
        if not behind:
            close(native, flush=flush)

    monkeypatch.setattr(module, "_close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        database.close()
    database.close()
    database.close()
    database = opened(tmp_path)
    assert database.namespace("default").get(b"k") == b"v"
    assert database.namespace("offsets").get(b"k") == b"v"
    database.close()


def test_a_claim_that_nobody_has_is_free(tmp_path):
    kept = claim(tmp_path)
    with pytest.raises(EngineLockedError):
        claim(tmp_path)
    del kept
    gc.collect()
    claim(tmp_path).release()


def test_an_interrupted_open_holds_nothing_however_long_it_is_kept(tmp_path, monkeypatch):
    open_native = RocksDBEngine.open.__globals__["open_for_writing"].__globals__["_open"]

    def interrupted(*arguments):
        native = open_native(*arguments)
        raise KeyboardInterrupt(native)

    monkeypatch.setattr("kstore_rocksdb.opening._open", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        opened(tmp_path)
    kept.value.args = ()
    monkeypatch.undo()
    opened(tmp_path).close()
    assert kept.value.__traceback__ is not None


def scanned(space):
    return [chunk for reverse in (False, True) for chunk in space.scan(b"a", None, reverse=reverse)]


def started(space):
    return [space.start(b"k1", hi, reverse=reverse) for hi in (b"k3", None) for reverse in (0, 1)]


@pytest.mark.parametrize("read", [scanned, started])
def test_a_traceback_of_a_read_that_is_kept_keeps_no_lock(tmp_path, monkeypatch, read):
    """An iterator keeps RocksDB's LOCK, and a frame that a traceback has keeps an iterator."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)  # pytest's own keeps what it is told
    database = opened(tmp_path)
    rows = Rows([b"k%d" % number for number in range(9)], [b"v"] * 9)
    database.write({"default": rows})
    with AtStep(None) as counted:
        read(database.namespace("default"))
    kept = []
    for step in range(2, counted.steps, 1 + counted.steps // 40):
        try:
            with AtStep(step) as aim:
                read(database.namespace("default"))
        except KeyboardInterrupt as interrupt:  # else Python has swallowed it, in a __del__
            kept.append(interrupt)
        gc.collect()  # what a frame of the aim's own refers to
        database.close()
        try:
            database = opened(tmp_path)
        except EngineLockedError:
            pytest.fail(f"the lock is kept by {aim}")
    assert len(kept) > 20
    database.close()


def test_a_scan_whose_constructor_was_interrupted_is_freed_in_silence():
    scan = FamilyScan.__new__(FamilyScan)
    del scan  # pytest raises what a finalizer raises
    gc.collect()

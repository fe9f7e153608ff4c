"""Copies of a live state directory are of one commit, whoever writes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import (
    EngineError,
    EngineLockedError,
    InconsistentStateError,
    SpecError,
    StateError,
    UnsupportedError,
)
from kstore_core.state.checkpoint import checkpoint
from kstore_core.state.migration_note import Plan
from kstore_core.system.lock import LOCK_FILE, DirectoryLock, noted_changes
from kstore_core.testing.kinds import KINDS
from tests.restore.stores import contents, spec_of
from tests.restore.stores import write as write_ops
from tests.state.checkpoints.writer import number_in, open_stores, write
from tests.support.threads import repeating

pytestmark = pytest.mark.usefixtures("left_sound")

ENGINES = ("lmdb", "rocksdb")


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_copy_has_what_is_committed(tmp_path, engine, kind):
    with open_state(tmp_path / "0_0", engine=engine) as state:
        store = state.open(spec_of(kind))
        write_ops(kind, store, [(b"a", b"1", 60, [("h", b"x")]), (b"b", b"2", 75, [])])
        state.commit({("in", 0): 4})
        committed = contents(kind, store)
        write_ops(kind, store, [(b"a", b"3", 80, [])])
        assert state.checkpoint(tmp_path / "live") == ["s"]
        checkpoint(tmp_path / "0_0", tmp_path / "read")
    for copy in ("live", "read"):
        with open_state(tmp_path / copy) as state:
            assert state.engine.name == engine
            assert contents(kind, state.open(spec_of(kind))) == committed
            assert state.offsets() == {("in", 0): 4}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_a_copy_beside_a_thread_that_commits(tmp_path, engine):
    with open_state(tmp_path / "0_0", engine=engine) as state:
        opened = open_stores(state)

        def commit(number):
            write(opened, number)
            state.commit({("in", 0): number})

        commit(0)
        with repeating(lambda number: commit(number + 1)):
            for number in range(5):
                state.checkpoint(tmp_path / f"copy{number}")
    numbers = [number_in(tmp_path / f"copy{number}") for number in range(5)]
    assert numbers == sorted(numbers)


@contextmanager
def writer(root, engine, pause_s):
    arguments = [
        sys.executable,
        "-m",
        "tests.state.checkpoints.writer",
        str(root),
        engine,
        str(pause_s),
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_copy_beside_a_process_that_commits(tmp_path, engine):
    with writer(tmp_path / "0_0", engine, 0.2) as process:
        for number in range(5):
            checkpoint(tmp_path / "0_0", tmp_path / f"copy{number}")
            assert process.poll() is None
    numbers = [number_in(tmp_path / f"copy{number}") for number in range(5)]
    assert numbers == sorted(numbers)


def test_a_process_that_was_killed_is_at_rest(tmp_path):
    with writer(tmp_path / "0_0", "rocksdb", 0):
        pass
    checkpoint(tmp_path / "0_0", tmp_path / "copy")
    with open_state(tmp_path / "copy") as state:
        assert state.stores() == ["keyed", "versioned", "windows"]


def test_more_segments_than_may_be_open(tmp_path, monkeypatch):
    monkeypatch.setattr("kstore_core.state.copying.max_open", lambda: 2)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        write(open_stores(state), 3)
        state.commit({("in", 0): 3})
        checkpoint(tmp_path / "0_0", tmp_path / "copy")
    assert number_in(tmp_path / "copy") == 3


def test_a_commit_that_does_not_end_is_waited_for_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr("kstore_core.state.copying._ATTEMPTS", 2)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        open_stores(state)
        state.commit()
    lock = DirectoryLock(tmp_path / "0_0", "rocksdb")
    with lock.change():
        assert not noted_changes(tmp_path / "0_0").at_rest
        with pytest.raises(EngineError, match=r"state\.checkpoint"):
            checkpoint(tmp_path / "0_0", tmp_path / "copy")
    lock.release()
    assert not (tmp_path / "copy").exists()
    checkpoint(tmp_path / "0_0", tmp_path / "copy")


def test_a_commit_of_a_process_that_cannot_be_seen_is_one(tmp_path):
    lock = DirectoryLock(tmp_path, "rocksdb")
    with lock.change():
        text = (tmp_path / LOCK_FILE).read_text()
        (tmp_path / LOCK_FILE).write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {2**30}'))
        assert noted_changes(tmp_path) == (1, False)
    lock.release()
    (tmp_path / LOCK_FILE).write_text(text)
    assert noted_changes(tmp_path) == (1, False)  # by a process that goes on without the lock
    (tmp_path / LOCK_FILE).write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {2**30}'))
    assert noted_changes(tmp_path) == (1, True)
    for content in ('{"changes": 7}', '{"changes": "x"}', "[]", ""):
        (tmp_path / LOCK_FILE).write_text(content)
        assert noted_changes(tmp_path) == (0, True)


def test_only_commits_to_several_databases_are_noted(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        state.open(stores.key_value("a"))
        state.commit()
        assert noted_changes(tmp_path).number == 0
        state.open(stores.key_value("b"))
        state.commit()
        assert noted_changes(tmp_path) == (2, True)
    with open_state(tmp_path) as state:
        assert noted_changes(tmp_path) == (4, True)
        state.open(stores.window("c", 1000, 10))
    assert noted_changes(tmp_path) == (6, True)


@pytest.mark.unsound
def test_what_is_refused(tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        state.open(stores.key_value("s"))
        (tmp_path / "there").mkdir()
        with pytest.raises(FileExistsError, match="name a new directory"):
            state.checkpoint(tmp_path / "there")
        with pytest.raises(SpecError, match="pass a path outside of the state directory"):
            state.checkpoint(root / "copy")
        state.checkpoint(root / ".." / "beside")
        assert (tmp_path / "beside").is_dir()
        Plan("swap", ("s",), "rocksdb", "rocksdb").write(root)
        with pytest.raises(InconsistentStateError, match="kstore migrate"):
            state.checkpoint(tmp_path / "copy")
    with pytest.raises(StateError, match="no state directory"):
        checkpoint(tmp_path / "missing", tmp_path / "copy", engine="rocksdb")
    with (
        open_state(tmp_path / "m", engine="memory") as state,
        pytest.raises(UnsupportedError, match=r"in memory.*rocksdb or lmdb"),
    ):
        state.checkpoint(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_two_to_one_place_and_what_a_killed_one_has_left(tmp_path):
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
        state.commit()
        aside = tmp_path / ".copy.kstore-checkpoint~"
        (aside / "rocksdb" / "s").mkdir(parents=True)
        held = DirectoryLock(aside, "rocksdb")
        with pytest.raises(EngineLockedError):
            state.checkpoint(tmp_path / "copy")
        held.release()
        state.checkpoint(tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0_0", "copy"]

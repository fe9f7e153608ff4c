"""The writer's lock: one writer a directory, named to whoever comes second."""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import EngineLockedError, SpecError, StateError, StorageFullError
from kstore_core.system.lock import LOCK_FILE, DirectoryLock, noted_changes, recorded_engine

HOLDER = """
import sys, time
from kstore_core import open_state, stores
state = open_state(sys.argv[1], engine="rocksdb")
store = state.open(stores.key_value("s"))
store.put(b"a", b"1")
state.commit()
print("ready", flush=True)
sys.stdin.readline()
state.close()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has ``tmp_path`` open for writing until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_open_in_this_process_is_refused(tmp_path):
    with open_state(tmp_path, engine="rocksdb"):
        with pytest.raises(EngineLockedError, match="this process") as caught:
            open_state(tmp_path, engine="rocksdb")
        assert caught.value.pid == os.getpid()
    with open_state(tmp_path, engine="rocksdb"):
        pass


def test_the_holder_in_another_process_is_named(tmp_path, holder):
    with pytest.raises(EngineLockedError, match=f"process {holder.pid}") as caught:
        open_state(tmp_path, engine="rocksdb")
    assert caught.value.pid == holder.pid
    assert str(tmp_path) in str(caught.value)


def test_a_reader_needs_no_lock(tmp_path, holder):
    with open_state(tmp_path, read_only=True) as state:
        assert state.open(stores.key_value("s")).get(b"a") == b"1"


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with open_state(tmp_path) as state:
        assert state.open(stores.key_value("s")).get(b"a") == b"1"


def test_a_timeout_waits_until_the_holder_is_done(tmp_path, holder):
    timer = threading.Timer(0.3, lambda: print(file=holder.stdin, flush=True))
    timer.start()
    started = time.monotonic()
    with open_state(tmp_path, lock_timeout_s=30):
        assert time.monotonic() - started >= 0.25
    timer.join()


def test_a_timeout_that_passes_is_an_error(tmp_path):
    with open_state(tmp_path, engine="rocksdb"):
        started = time.monotonic()
        with pytest.raises(EngineLockedError):
            open_state(tmp_path, lock_timeout_s=0.2)
        assert 0.2 <= time.monotonic() - started < 5


def test_a_forked_child_does_not_go_on_holding_the_lock(tmp_path):
    state = open_state(tmp_path, engine="rocksdb")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # until the parent has opened the directory again
        os._exit(0)
    try:
        state.close()
        with open_state(tmp_path):
            pass
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_a_release_does_not_wait_for_a_child_that_is_being_forked(tmp_path):
    """Between a fork and its end of the hooks, or its exec, a child has the descriptor too."""
    lock = DirectoryLock(tmp_path, "e")
    inherited = os.dup(lock._fd)
    lock.release()
    DirectoryLock(tmp_path, "e").release()
    os.close(inherited)


def test_a_forked_child_that_ends_does_not_free_the_parents_lock(tmp_path):
    with open_state(tmp_path, engine="rocksdb"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(EngineLockedError):
            open_state(tmp_path)


def test_a_symbolic_link_leads_to_the_same_lock(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with open_state(tmp_path / "real", engine="rocksdb"), pytest.raises(EngineLockedError):
        open_state(tmp_path / "link", engine="rocksdb")


def test_the_engine_is_recorded_and_the_pid_only_while_held(tmp_path):
    lock = DirectoryLock(tmp_path, "some-engine")
    content = json.loads((tmp_path / LOCK_FILE).read_text())
    assert content == {"engine": "some-engine", "pid": os.getpid()}
    lock.release()
    lock.release()
    assert json.loads((tmp_path / LOCK_FILE).read_text()) == {"engine": "some-engine", "pid": None}
    assert recorded_engine(tmp_path) == "some-engine"


def test_a_shorter_text_leaves_nothing_of_a_longer_one(tmp_path):
    DirectoryLock(tmp_path, "an-engine-with-quite-a-long-name").release()
    DirectoryLock(tmp_path, "short").release()
    assert recorded_engine(tmp_path) == "short"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[]", b"7", b"{", b'{"engine": 5}', b'{"pid": 1}', b"null"]
)
def test_a_damaged_lock_file_records_no_engine(tmp_path, content):
    (tmp_path / LOCK_FILE).write_bytes(content)
    assert recorded_engine(tmp_path) is None
    with pytest.raises(SpecError, match="no engine"):
        open_state(tmp_path)
    with open_state(tmp_path, engine="rocksdb"):
        pass
    assert recorded_engine(tmp_path) == "rocksdb"


def test_nothing_records_an_engine_in_a_directory_that_is_not_there(tmp_path):
    assert recorded_engine(tmp_path / "nowhere") is None


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "arguments",
    [
        {"uncommitted_max_bytes": "x"},
        {"uncommitted_max_bytes": 2**70},
        {"lock_timeout_s": "x"},
        {"durability": "forever"},
        {"options": {"no_such_option": 1}},
    ],
    ids=str,
)
def test_a_failed_open_holds_nothing(tmp_path, arguments):
    before = open_descriptors()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        open_state(tmp_path, engine="rocksdb", **arguments)
    assert open_descriptors() == before
    with open_state(tmp_path, engine="rocksdb"):
        pass


def test_refused_opens_leave_no_descriptors(tmp_path):
    with open_state(tmp_path, engine="rocksdb"):
        before = open_descriptors()
        for _ in range(20):
            with pytest.raises(EngineLockedError):
                open_state(tmp_path)
        assert open_descriptors() == before


def test_a_state_that_nobody_closed_warns_and_lets_go(home):
    state = home.open()
    state.open(stores.key_value("s")).put(b"a", b"1")
    state.commit()
    with pytest.warns(ResourceWarning, match="was never closed"):
        del state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the engine's database may say so too
        gc.collect()
    with home.open() as state:
        assert state.open(stores.key_value("s")).get(b"a") == b"1"


LEAKER = """
import sys
from kstore_core import open_state, stores
state = open_state(sys.argv[1], engine=sys.argv[2])
store = state.open(stores.key_value("s"))
store.put(b"a", b"1")
state.commit()
scan = store.all()
next(scan)
"""


def test_a_program_that_ends_without_closing_is_warned_and_no_more(tmp_path, engine):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", LEAKER, str(tmp_path), engine],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "was never closed" in done.stderr
    assert "Traceback" not in done.stderr
    if engine == "rocksdb":
        with open_state(tmp_path) as state:
            assert state.open(stores.key_value("s")).get(b"a") == b"1"


@pytest.mark.parametrize("path", ["file", "file/below"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_is_not_a_state_directory(tmp_path, path, read_only):
    (tmp_path / "file").write_text("text")
    with pytest.raises(StateError):
        open_state(tmp_path / path, engine="rocksdb", read_only=read_only)
    assert (tmp_path / "file").read_text() == "text"


def failing(number):
    def write(*_):
        raise OSError(number, os.strerror(number))

    return write


@pytest.mark.parametrize(
    ("number", "kind", "told"),
    [
        (errno.ENOSPC, StorageFullError, "no space left to write .kstore.lock"),
        (errno.EIO, StateError, "cannot be opened for writing, because its .kstore.lock cannot"),
    ],
)
def test_a_lock_that_cannot_be_written_is_not_held(tmp_path, monkeypatch, number, kind, told):
    before = set(Path("/proc/self/fd").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(number))
        with pytest.raises(kind, match=told) as caught:
            open_state(tmp_path, engine="rocksdb")
    assert str(tmp_path) in str(caught.value)
    assert set(Path("/proc/self/fd").iterdir()) <= before
    open_state(tmp_path, engine="rocksdb").close()


def test_a_lock_file_that_is_a_directory_is_explained(tmp_path):
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(StateError, match=r"its \.kstore\.lock cannot be written: Is a directory"):
        open_state(tmp_path, engine="rocksdb")


def test_a_release_that_cannot_write_lets_others_in(tmp_path, monkeypatch):
    lock = DirectoryLock(tmp_path, "rocksdb")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(errno.ENOSPC))
        lock.release()
    DirectoryLock(tmp_path, "rocksdb").release()


def test_a_lock_on_a_file_that_was_deleted_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    taken = []

    def flock(fd, how):
        if not taken:
            (tmp_path / LOCK_FILE).unlink()
        taken.append(fd)

    monkeypatch.setattr("kstore_core.system.lock.fcntl.flock", flock)
    lock = DirectoryLock(tmp_path, "rocksdb")
    assert len(taken) == 2
    assert recorded_engine(tmp_path) == "rocksdb"
    lock.release()


def test_a_close_that_was_interrupted_is_finished_by_another(tmp_path, monkeypatch):
    state = open_state(tmp_path, engine="rocksdb")
    state.open(stores.key_value("s"))

    def interrupted(lock):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryLock, "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            state.close()
    state.close()
    open_state(tmp_path).close()


def test_a_lock_that_nobody_has_lets_others_in(tmp_path):
    kept = DirectoryLock(tmp_path, "memory")
    del kept
    gc.collect()
    DirectoryLock(tmp_path, "memory").release()


@pytest.mark.parametrize("missing", [True, False])
def test_a_change_that_an_interrupt_has_not_noted_is_noted_by_the_next(tmp_path, missing):
    """A number that is odd means that one is under way, however it came about."""
    lock = DirectoryLock(tmp_path, "memory")
    lock.note(at_rest=missing)
    before = noted_changes(tmp_path)
    assert before.at_rest == missing
    with lock.change():
        within = noted_changes(tmp_path)
        assert not within.at_rest
    after = noted_changes(tmp_path)
    assert after.at_rest
    assert before.number < within.number < after.number
    lock.release()

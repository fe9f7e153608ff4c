"""Temporary directories of readers: kept while their owner lives, and reaped when it is dead."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kstore_core import open_state, stores
from kstore_core.system import scratch
from kstore_core.system.scratch import HELD, Scratch, reap

HOLDS = """
import sys
from kstore_core.system.scratch import Scratch
from kstore_core import open_state, stores
if len(sys.argv) > 2:
    state = open_state(sys.argv[2], read_only=True)
    store = state.open(stores.key_value("s"))
else:
    held = Scratch(sys.argv[1])
    (held.path / "data").write_bytes(b"x")
    (held.path / "inner").mkdir()
    (held.path / "inner" / "data").write_bytes(b"x")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(scratch, "_reaped", None)
    return place


def holder(*arguments):
    """A process that holds a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"held\n"
    return process


def kill(process):
    process.kill()
    process.communicate()


@pytest.mark.parametrize("purpose", ["read", "verify"])
def test_the_next_one_removes_what_the_dead_have_left_and_nothing_else(temporary, purpose):
    living, dead = holder(purpose), holder(purpose)
    both = set(temporary.iterdir())
    assert len(both) == 2
    with Scratch() as mine:
        assert set(temporary.iterdir()) == {*both, mine}
    kill(dead)
    assert len(reap()) == 1
    (left,) = temporary.iterdir()
    assert (left / "inner" / "data").read_bytes() == b"x"
    kill(living)
    scratch._reaped = None
    with Scratch() as mine:
        assert [*temporary.iterdir()] == [mine]
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_copies_of_readers_that_were_killed_go_with_the_next_reader(temporary, tmp_path, engine):
    root = tmp_path / "0_0"
    with open_state(root, engine=engine) as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    kill(holder("read", root))
    living = holder("read", root)
    held = set(temporary.iterdir())
    assert len(held) == (engine == "rocksdb")  # an LMDB reader copies only when the map grows
    with open_state(root, read_only=True) as state:
        assert state.open(stores.key_value("s")).get(b"k") == b"v"
        assert held < {*temporary.iterdir()} or engine == "lmdb"
    assert set(temporary.iterdir()) == held
    kill(living)


def test_what_is_not_known_to_be_of_a_dead_reader_is_left_alone(temporary, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / HELD).touch()
    (temporary / "kstore-read-abcdefgh").mkdir()  # of one that holds no lock
    (temporary / "kstore-read-ijklmnop").symlink_to(outside)
    (temporary / "kstore-read-qrstuvwx").write_bytes(b"")
    for name in ("kstore-read-short", "kstore-other-abcdefgh"):
        (temporary / name).mkdir()
        (temporary / name / HELD).touch()
    link = temporary / "kstore-read-abcdefg2"
    link.mkdir()
    (link / HELD).symlink_to(outside / HELD)
    before = set(temporary.iterdir())
    assert reap() == []
    assert set(temporary.iterdir()) == before
    assert (outside / HELD).exists()


def test_only_directories_of_this_user(temporary, monkeypatch):
    kill(holder("verify"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert reap() == []
    monkeypatch.undo()


def _race(place, barrier, queue):
    tempfile.tempdir = place
    barrier.wait()
    queue.put(len(reap()))
    for _ in range(30):
        with Scratch() as mine:
            reap()
            assert (mine / HELD).exists()


def test_several_that_reap_at_once(temporary):
    for number in range(8):
        place = temporary / f"kstore-read-0000000{number}"
        place.mkdir()
        (place / HELD).touch()
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(4), context.Queue()
    racers = [
        context.Process(target=_race, args=(str(temporary), barrier, queue)) for _ in range(4)
    ]
    for racer in racers:
        racer.start()
    removed = sum(queue.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert removed == 8
    assert not [*temporary.iterdir()]


def test_one_that_is_reaped_before_it_is_held_is_made_again(temporary, monkeypatch):
    usual, made = tempfile.mkdtemp, []

    def mkdtemp(**named):
        made.append(Path(usual(**named)))
        if len(made) < 3:
            made[-1].rmdir()
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with Scratch() as mine:
        assert (mine, len(made)) == (made[2], 3)


def test_where_there_are_no_locks_nothing_is_reaped(temporary, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with Scratch() as mine:
        assert reap() == []
        assert mine.is_dir()
    assert not mine.exists()


def test_a_full_disk_is_told_and_leaves_nothing(temporary, monkeypatch):
    usual = os.open

    def full(path, *flags, **named):
        if Path(path).name == HELD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return usual(path, *flags, **named)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space"):
        Scratch()
    monkeypatch.undo()
    assert not [*temporary.iterdir()]


def test_a_fork_removes_nothing(temporary):
    mine = Scratch()
    child = os.fork()
    if child == 0:
        mine.remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert mine.path.is_dir()
    mine.remove()
    mine.remove()
    assert not mine.path.exists()

"""A file that processes share: written once, never seen half, and removed when nobody reads it."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from kstore_core.spark.join import shared_file
from kstore_core.spark.join.shared_file import TooLargeError, share_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files are shared on Linux")

_WRITER = """
import sys, time
from pathlib import Path
from kstore_core.spark.join.shared_file import share_files

def write(number, file, max_bytes):
    with open(sys.argv[1], "a") as calls:
        calls.write("x")
    file.write(b"half ")
    file.flush()
    while Path(sys.argv[2]).exists():
        time.sleep(0.01)
    file.write(b"whole")

files = share_files(sys.argv[3:], write, max_bytes=99)
sys.stdout.write(" ".join(bytes(file).decode() for file in files))
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "joins"


def shared(name: str, text: bytes) -> mmap.mmap | None:
    def write(number: int, file: BinaryIO, max_bytes: int) -> None:
        file.write(text)

    files = share_files([name], write, max_bytes=99)
    return None if files is None else files[0]


def content(name: str, text: bytes) -> bytes:
    mapped = shared(name, text)
    assert mapped is not None
    return bytes(mapped)


def started(tmp_path: Path, blocked: Path, *names: str) -> subprocess.Popen[bytes]:
    paths = [str(tmp_path / "calls"), str(blocked)]
    command = [sys.executable, "-c", _WRITER, *paths, *(names or "a")]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def wait_for_half(directory: Path) -> None:
    begun = time.monotonic()
    while not any(file.stat().st_size for file in directory.glob("*.tmp")):
        assert time.monotonic() - begun < 60
        time.sleep(0.01)


def test_only_the_first_call_writes(directory: Path) -> None:
    assert content("a", b"first") == b"first"
    assert content("a", b"second") == b"first"
    assert content("b", b"other") == b"other"
    assert len(list(directory.iterdir())) == 1  # Nobody reads the first file any more.


def test_a_file_with_readers_stays(directory: Path) -> None:
    mapped = shared("a", b"first")
    assert content("b", b"other") == b"other"
    assert content("a", b"second") == b"first"
    assert mapped is not None
    mapped.close()
    assert content("c", b"third") == b"third"
    assert content("a", b"second") == b"second"


def test_other_processes_wait_for_the_writer(tmp_path: Path, directory: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    processes = [started(tmp_path, blocked) for _ in range(3)]
    wait_for_half(directory)
    blocked.unlink()
    assert [process.communicate(timeout=60)[0] for process in processes] == [b"half whole"] * 3
    assert (tmp_path / "calls").read_text() == "x"


def test_processes_share_the_work(tmp_path: Path, directory: Path) -> None:
    """The second process writes what the first one does not write yet, and waits for the rest."""
    blocked = tmp_path / "blocked"
    blocked.touch()
    first = started(tmp_path, blocked, "a", "b")
    wait_for_half(directory)
    found = list(directory.glob("*.tmp"))
    second = started(tmp_path, blocked, "a", "b")
    begun = time.monotonic()
    while len(list(directory.glob("*.tmp"))) == len(found):
        assert time.monotonic() - begun < 60
        time.sleep(0.01)
    blocked.unlink()
    for process in (first, second):
        assert process.communicate(timeout=60)[0] == b"half whole half whole"
    assert (tmp_path / "calls").read_text() == "xx"


def test_a_killed_writer_leaves_no_file(tmp_path: Path, directory: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    writer = started(tmp_path, blocked)
    wait_for_half(directory)
    waiting = started(tmp_path, blocked)
    time.sleep(0.3)
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate(timeout=60)
    blocked.unlink()
    assert waiting.communicate(timeout=60)[0] == b"half whole"
    assert content("a", b"never written") == b"half whole"
    assert not list(directory.glob("*.tmp"))


def test_the_unfinished_file_of_a_killed_writer_is_removed(tmp_path: Path, directory: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    writer = started(tmp_path, blocked)
    wait_for_half(directory)
    writer.kill()
    writer.communicate(timeout=60)
    assert len(list(directory.glob("*.tmp"))) == 1
    assert content("b", b"other") == b"other"
    assert not list(directory.glob("*.tmp"))


def test_an_error_of_the_writer_leaves_no_file(directory: Path) -> None:
    def write(number: int, file: BinaryIO, max_bytes: int) -> None:
        file.write(b"half")
        if number == 1:
            raise RuntimeError("no")

    for names in ("ba", "bac"):
        with pytest.raises(RuntimeError, match="no"):
            share_files(names, write, max_bytes=99)
        assert list(directory.iterdir()) == []
    assert content("a", b"whole") == b"whole"


def test_files_are_not_larger_than_allowed_together(directory: Path) -> None:
    limits: list[int] = []

    def write(number: int, file: BinaryIO, max_bytes: int) -> None:
        limits.append(max_bytes)
        file.write(b"four")

    kept = share_files("ab", write, max_bytes=8)
    assert limits == [8, 4]
    with pytest.raises(TooLargeError):
        share_files("abc", write, max_bytes=11)
    assert limits == [8, 4, 3]
    assert len(list(directory.iterdir())) == 2  # The first two files have a reader.
    del kept
    with pytest.raises(TooLargeError):
        share_files("ab", write, max_bytes=7)
    assert list(directory.iterdir()) == []


def test_a_file_of_an_earlier_boot_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = tmp_path / "boot_id"
    monkeypatch.setattr(shared_file, "_BOOT", boot)
    boot.write_text("one")
    assert content("a", b"first") == b"first"
    boot.write_text("two")
    assert content("a", b"second") == b"second"
    boot.unlink()
    assert shared("a", b"third") is None


def test_a_directory_that_cannot_be_used_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path / "file" / "below"))
    assert shared("a", b"first") is None
    monkeypatch.setenv("KSTORE_SHARD_CACHE", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 12345)
    assert shared("a", b"first") is None

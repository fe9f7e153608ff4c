"""Logs and other processes: one writes, any read beside it, SIGKILL takes nothing committed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kstore_core.changelog import FileChangelog
from kstore_core.codec import LogRecord
from kstore_core.errors import (
    EngineLockedError,
    ForkedHandleError,
)
from tests.changelog.logs import (
    append_in_threads,
    before_call,
    contents,
    fill,
    open_log,
    read_whole,
)
from tests.support.places import ROOT

WRITER = """
import sys
from pathlib import Path
from tests.changelog.logs import append_in_threads, before_call, open_log

with open_log(Path(sys.argv[1]), segment_bytes=3000) as log:
    print(log.end_offset, flush=True)
    while True:
        for offset in range(log.end_offset, log.end_offset + 7):
            log.append(b"k%d" % (offset % 50), b"v%d" % offset, offset)
        print(log.commit(), flush=True)
        if log.high_watermark % 10 == 0:
            log.compact()
"""


@contextmanager
def writing(root: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes until it is killed, at the end of the block at the latest."""
    command = [sys.executable, "-c", WRITER, str(root)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def committed(writer: subprocess.Popen[str]) -> int:
    """The next offset up to which all is committed."""
    assert writer.stdout is not None
    return int(writer.stdout.readline())


@pytest.mark.parametrize("seed", range(6))
def test_sigkill_takes_nothing_that_was_committed(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    last = 0
    for _ in range(3):
        with writing(tmp_path) as writer:
            assert committed(writer) >= last
            for _ in range(chance.randrange(40)):
                last = committed(writer)
            time.sleep(chance.random() / 50)
            writer.kill()
            assert writer.stdout is not None
            last = max([last, *map(int, writer.stdout.read().split())])
        for found in (read_whole(tmp_path), reopened(tmp_path)):
            assert all(record.value == b"v%d" % record.offset for record in found)
            newest = {record.key: record.offset for record in found}
            for offset in range(max(last - 50, 0), last):
                assert newest[b"k%d" % (offset % 50)] >= offset


def reopened(root: Path) -> list[LogRecord]:
    with open_log(root, segment_bytes=3000) as log:
        return contents(log)


def test_a_reader_in_another_process_follows(tmp_path: Path) -> None:
    """Through rolled, compacted and merged segments; nothing is skipped or seen twice."""
    newest: dict[bytes | None, int] = {}
    position = 0
    with writing(tmp_path) as writer:
        assert committed(writer) == 0
        with open_log(tmp_path, read_only=True) as log:
            until = time.monotonic() + 2
            while True:
                done = time.monotonic() > until
                if done:
                    writer.kill()
                    writer.wait()
                assert log.high_watermark >= position
                for columns in log.read(position):
                    assert columns[0].offset >= position
                    position = columns.next_offset
                    for record in columns:
                        assert record.value == b"v%d" % record.offset
                        assert record.offset > newest.get(record.key, -1)
                        newest[record.key] = record.offset
                if done:
                    break
    assert position > 50
    assert sorted(newest.values()) == list(range(position - 50, position))


def test_a_reader_finds_the_end_of_a_log_that_is_compacted_meanwhile(tmp_path: Path) -> None:
    """Before each time that the reader opens, lists or examines a file."""

    def compact_and_append(log: FileChangelog) -> None:
        log.roll()
        fill(log, 3)
        log.roll()
        log.compact()
        fill(log, 3)

    for number in count(1):
        root = tmp_path / str(number)
        with open_log(root) as log, open_log(root, read_only=True) as reader:
            fill(log, 40)
            assert reader.high_watermark == 40
            with before_call(number, partial(compact_and_append, log)) as was_called:
                assert reader.high_watermark in (40, 43, 46)
            assert reader.high_watermark == (46 if was_called() else 40)
        if not was_called():
            break
    assert number > 3


@pytest.mark.parametrize("is_tombstone", [False, True], ids=["superseded", "tombstones"])
def test_a_reader_follows_where_the_last_file_was_compacted(
    tmp_path: Path, is_tombstone: bool
) -> None:
    """A roll without a write after it lets a compaction replace the last file."""

    def put(log: FileChangelog, count: int) -> None:
        for _ in range(count):
            number = log.end_offset
            key = b"%d" % (number if is_tombstone else number % 7)
            log.append(key, None if is_tombstone else b"v", number)
            log.commit()

    for begun in range(1, 40):
        root = tmp_path / str(begun)
        with open_log(root) as log, open_log(root, read_only=True) as reader:
            put(log, begun)
            assert reader.high_watermark == begun
            reading = reader.read()
            put(log, 20)
            log.roll()
            log.compact()
            assert reader.high_watermark == begun + 20
            position, newest = 0, {}
            while position < begun + 20:
                for columns in reading:
                    assert columns.next_offset > position
                    position = columns.next_offset
                    newest.update({record.key: record.offset for record in columns})
                reading = reader.read(position)
            assert newest == {record.key: record.offset for record in contents(log)}
            put(log, 5)
            assert reader.high_watermark == begun + 25
            assert contents(reader, begun + 20) == contents(log, begun + 20)


def test_a_read_finds_what_superseded_a_key_before_its_end(tmp_path: Path) -> None:
    """The last file is compacted after the read began, and its first bytes then reach further."""
    with open_log(tmp_path) as log, open_log(tmp_path, read_only=True) as reader:
        fill(log, 40)
        log.append(b"only", b"before", 0)
        log.commit()
        reads = [log.read(), reader.read()]
        fill(log, 200, keys=200)
        log.append(b"only", b"after", 0)
        log.roll()
        fill(log, 1)
        log.compact()
        for reading in reads:
            values = [r.value for columns in reading for r in columns if r.key == b"only"]
            assert values == [b"after"]


def test_a_second_writer_is_told_who_has_it(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        committed(writer)
        with pytest.raises(EngineLockedError, match=f"is open for writing in process {writer.pid}"):
            open_log(tmp_path)
    open_log(tmp_path, lock_timeout_s=5).close()
    with open_log(tmp_path), pytest.raises(EngineLockedError, match="this process"):
        open_log(tmp_path)


def test_a_fork_does_not_write(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log, 3)
        child = os.fork()
        if child == 0:
            try:
                log.append(b"k", b"v", 0)
            except ForkedHandleError:
                assert len(contents(log)) == 3
                log.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        fill(log, 1)
    assert len(read_whole(tmp_path)) == 4


def test_threads_append_and_compact(tmp_path: Path) -> None:
    """Every record of each thread is there, in the thread's order."""
    with open_log(tmp_path, segment_bytes=3000, min_compaction_lag_ms=10**15) as log:

        def commit_and_compact() -> None:
            log.commit()
            log.compact()

        append_in_threads(log, 200, every=20, then=commit_and_compact)
        assert [record.offset for record in contents(log)] == list(range(800))

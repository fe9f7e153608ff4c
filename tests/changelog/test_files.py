"""A changelog in files: what is appended is read, by us and by others."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.changelog import Changelog, FileChangelog
from kstore_core.codec import LogRecord, RecordColumns
from kstore_core.codec.log.batch.compression import CODECS
from kstore_core.errors import (
    EngineError,
    InconsistentStateError,
    SpecError,
    StateError,
    StorageFullError,
    StoreClosedError,
    UnsupportedError,
)
from tests.changelog.logs import TOPIC, bytes_of, contents, files, fill, open_log, read_whole
from tests.support.kafka_python import read_by_kafka_python


@pytest.mark.parametrize("compression", CODECS)
def test_what_is_committed_is_read(compression: str, tmp_path: Path) -> None:
    with open_log(tmp_path, compression=compression, segment_bytes=900) as log:
        protocol: Changelog = log
        assert (protocol.topic, protocol.partition) == (TOPIC, 0)
        fill(log, 100)
        found = contents(log)
        assert [record.offset for record in found] == list(range(100))
        assert found[93] == LogRecord(93, 93, b"k2", b"v93", [("n", b"93")])
        assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 100, 100)
        for offset in range(101):
            assert contents(log, offset) == found[offset:]
        assert read_by_kafka_python(bytes_of(log)) == found
        names = files(log)
    assert log.path == tmp_path.resolve() / "app-s-changelog-0"
    assert names[0] == "00000000000000000000.log"
    assert len(names) > 3
    assert all((log.path / name).stat().st_size <= 900 for name in names)
    assert read_whole(tmp_path) == found


@given(
    operations=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 30)),
            st.tuples(st.sampled_from(["commit", "discard", "roll", "reopen", "extend"])),
        ),
        max_size=30,
    ),
    linger_bytes=st.sampled_from([0, 300, 10**6]),
)
@settings(max_examples=60)
def test_against_a_list(
    operations: list[Any], linger_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("log")
    options = {"segment_bytes": 700, "linger_bytes": linger_bytes}
    log = open_log(root, **options)
    written: list[bytes] = []
    waiting: list[bytes] = []
    for name, *arguments in operations:
        if name == "append":
            for _ in range(arguments[0]):
                value = b"%d" % (len(written) + len(waiting))
                log.append(b"k", value, 0)
                waiting.append(value)
                if log.pending_bytes == 0:
                    written, waiting = written + waiting, []
        elif name == "extend":
            more = RecordColumns()
            more.append(1000, 0, b"k", b"x")
            log.extend(more)
            waiting.append(b"x")
            if log.pending_bytes == 0:
                written, waiting = written + waiting, []
        elif name == "discard":
            log.discard()
            waiting = []
        elif name == "reopen":
            log.close()
            log = open_log(root, **options)
            waiting = []
        else:
            getattr(log, name)()
            written, waiting = written + waiting, []
        assert [record.value for record in contents(log)] == written
        assert (log.high_watermark, log.end_offset) == (len(written), len(written) + len(waiting))
    log.close()
    assert [(r.offset, r.value) for r in read_whole(root)] == list(enumerate(written))


def test_a_reader_follows_the_writer(tmp_path: Path) -> None:
    with (
        open_log(tmp_path, segment_bytes=500) as log,
        open_log(tmp_path, read_only=True) as reader,
    ):
        assert (reader.high_watermark, contents(reader)) == (0, [])
        log.append(b"k", b"v", 0)
        assert reader.high_watermark == 0
        for count in (1, 4, 50):
            fill(log, count)
            assert contents(reader, reader.start_offset) == contents(log)
            assert reader.end_offset == log.end_offset


def test_a_batch_larger_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    value = os.urandom(3_000_000)
    with open_log(tmp_path) as log:
        for key in (b"a", b"b"):
            log.append(key, value, 0)
            log.append(key, b"small", 0)
        log.commit()
    assert [record.value for record in read_whole(tmp_path)] == [value, b"small"] * 2
    with open_log(tmp_path) as log:
        assert log.high_watermark == 4


def test_what_waits_too_long_is_written(tmp_path: Path) -> None:
    with open_log(tmp_path, linger_bytes=100) as log:
        log.append(b"k", bytes(99), 0)
        assert (log.pending_bytes, log.high_watermark) == (100, 0)
        log.append(b"k", b"", 0)
        assert (log.pending_bytes, log.high_watermark) == (0, 2)


def test_leaving_by_an_exception_forgets_what_waits(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.append(b"k", b"v", 0)
    log.__exit__(KeyError, KeyError(), None)
    assert len(read_whole(tmp_path)) == 3


def test_the_log_of_something_else_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log, 3)
        assert contents(log, 3) == []
        with pytest.raises(InconsistentStateError, match="ends at offset 3, but the store"):
            log.read(4)


# ---------------------------------------------------------------- durability


@pytest.mark.parametrize(
    ("durability", "at_commit", "at_roll"),
    [("process", 0, 0), ("changelog", 0, 1), ("power", 1, 0)],
)
def test_what_is_synced_when(
    durability: str,
    at_commit: int,
    at_roll: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_log(tmp_path, durability=durability) as log:
        fill(log, 1)  # makes the file
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", lambda file: synced.append(file))
        fill(log, 4)
        assert len(synced) == at_commit
        synced.clear()
        log.roll()
        assert len(synced) == at_roll


@pytest.mark.parametrize("durability", ["power", "changelog"])
def test_a_disk_that_refuses_to_sync_closes_the_log(
    durability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with open_log(tmp_path, durability=durability) as log:
        fill(log, 3)
        monkeypatch.setattr(os, "fsync", fail)
        log.append(b"k", b"v", 0)
        with pytest.raises(
            EngineError, match=r"the disk did not sync the written records of .*: Input"
        ):
            log.roll()
        with pytest.raises(StoreClosedError):
            log.append(b"k", b"v", 0)


@pytest.mark.parametrize("room", [0, 1, 100, 250, 450])
def test_a_full_disk_loses_nothing(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`room` bytes can still be written, over several segments."""
    left = room

    def pwrite(file: int, data: memoryview, position: int) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(left, len(data))
        left -= taken
        return real(file, data[:taken], position)

    real = os.pwrite
    with open_log(tmp_path, segment_bytes=300) as log:
        fill(log, 10)
        before = bytes_of(log)
        for offset in range(10, 40):
            log.append(b"k", b"v%d" % offset, offset)
        monkeypatch.setattr(os, "pwrite", pwrite)
        for _ in range(2):
            with pytest.raises(StorageFullError, match=r"No space left .* The log's end is unc"):
                log.commit()
            assert bytes_of(log) == before
            assert (log.high_watermark, log.end_offset) == (10, 40)
            left = room
        monkeypatch.undo()
        assert log.commit() == 40
        assert [record.offset for record in contents(log)] == list(range(40))
    assert len(read_whole(tmp_path)) == 40


# ---------------------------------------------------------------- refusals


def test_a_read_only_log_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"no changelog at .*app-s-changelog-0"):
        open_log(tmp_path, read_only=True)
    with open_log(tmp_path) as log:
        fill(log, 3)
    with open_log(tmp_path, read_only=True) as log:
        for call in (log.commit, log.discard, log.compact, log.roll):
            with pytest.raises(UnsupportedError, match="opened with read_only=True"):
                call()
        with pytest.raises(UnsupportedError):
            log.append(b"k", b"v", 0)
        with pytest.raises(UnsupportedError):
            log.extend(RecordColumns())


def test_a_closed_log_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert repr(log) == f"<FileChangelog {str(log.path)!r}, open>"
    log.close()
    log.close()
    assert repr(log).endswith("closed>")
    for call in (log.commit, log.read, log.compact, lambda: log.high_watermark):
        with pytest.raises(StoreClosedError, match="has been closed"):
            call()


def test_a_log_that_is_left_open_warns(tmp_path: Path) -> None:
    logs = [open_log(tmp_path)]
    with pytest.warns(ResourceWarning, match="was never closed"):
        logs.clear()
    open_log(tmp_path).close()


@pytest.mark.parametrize(
    ("module", "compression"), [("google_crc32c", "none"), ("cramjam", "zstd")]
)
def test_a_library_that_is_missing_is_named_before_anything_is_made(
    module: str, compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("kstore_core.codec.log.batch.checksum._compute", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'google-crc32c>=1.7' 'cramjam"):
        open_log(tmp_path / "log", compression=compression)
    assert list(tmp_path.iterdir()) == []


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for topic in ("", "a/b", "..", "a" * 250):
        with pytest.raises(SpecError, match="cannot be the name of a topic"):
            FileChangelog(tmp_path, topic)
    with pytest.raises(SpecError, match="partition of t must be 0 or above, not -1"):
        FileChangelog(tmp_path, "t", -1)
    with pytest.raises(SpecError, match="durability must be 'process', 'power' or"):
        FileChangelog(tmp_path, "t", durability="maybe")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    with open_log(tmp_path) as log:
        with pytest.raises(TypeError, match="key of a changelog record must be bytes"):
            log.append(None, b"v", 0)  # type: ignore[arg-type]
        keyless = RecordColumns()
        keyless.append(0, 0, None, b"v")
        with pytest.raises(TypeError, match="1 records have no key"):
            log.extend(keyless)
        assert log.end_offset == 0
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineError, match="cannot be written"):
        open_log(tmp_path / "file")


@pytest.mark.parametrize("written", [True, False])
def test_what_an_interrupted_commit_has_written_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    with open_log(tmp_path) as log:
        fill(log, 3)
        log.append(b"k", b"v", 3)
        write = log._writer.write

        def interrupted(data: bytes) -> None:
            if written:
                write(data)
            raise KeyboardInterrupt

        monkeypatch.setattr(log._writer, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.commit()
        monkeypatch.undo()
        log.append(b"k", b"w", 4)
        assert log.commit() == 5
        assert [record.offset for record in contents(log)] == list(range(5))
    assert [record.value for record in read_whole(tmp_path)][3:] == [b"v", b"w"]

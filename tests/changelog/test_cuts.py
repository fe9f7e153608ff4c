"""What is behind the last whole batch when a log is opened: kept beside it, and then cut off."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstore_core.changelog import FileChangelog, LogConfig
from kstore_core.changelog.files import tail
from kstore_core.changelog.files.segment import list_segments
from kstore_core.changelog.files.start import START, noted_start
from kstore_core.changelog.files.tail import cuts
from kstore_core.errors import CorruptionError, InconsistentStateError, StorageFullError
from tests.changelog.logs import contents, fill, open_log, read_whole
from tests.support.kafka_python import read_by_kafka_python

HALF = (12).to_bytes(8) + b"\0\0\1\0" + bytes(4) + b"\2" + b"half of a batch"
"""The beginning of the batch behind the first twelve records."""


EXPIRING: dict[str, Any] = {"segment_bytes": 300, "compact": False, "retention_ms": 5}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The only segment of a log of twelve records, and half a batch."""
    with open_log(tmp_path) as log:
        fill(log, 12)
        (segment,) = list_segments(log.path)
    with segment.path.open("ab") as file:
        file.write(HALF)
    return segment.path


def kept(path: Path) -> list[tuple[str, bytes]]:
    return [(cut.name, cut.read_bytes()) for cut in cuts(path.parent)]


@pytest.mark.parametrize("write", ["commit", "roll", "linger"])
def test_the_first_write_moves_it_aside_and_says_so(
    write: str, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = path.read_bytes()
    with open_log(tmp_path, linger_bytes=10) as log:
        assert log.compact().records == 0
        assert path.read_bytes() == data
        assert not caplog.records
        if write == "roll":
            log.roll()
        else:
            log.append(b"new", b"v" * (20 if write == "linger" else 1), 7)
            log.commit()
        assert (log.rest.kind, log.rest.size) == ("none", 0)
    assert kept(path) == [(f"{path.name}.cut-1", HALF)]
    (said,) = caplog.records
    assert said.levelno == logging.WARNING
    assert f"moved {len(HALF)} bytes of an incomplete batch after" in said.message
    assert f"after offset 11 from {path} to {path.name}.cut-1" in said.message
    assert len(read_whole(tmp_path)) == 12 + (write != "roll")


def test_each_tear_makes_one(path: Path, tmp_path: Path) -> None:
    for number in range(1, 4):
        for _ in range(2):  # opened and closed without a write, which cuts nothing
            with open_log(tmp_path) as log:
                assert log.rest.kind == "torn"
        with open_log(tmp_path) as log:
            fill(log, 1)
            end = log.high_watermark
            log.append(b"k", b"v", 0)
            log.commit()
        assert len(kept(path)) == number
        with path.open("ab") as file:
            file.write((end + 1).to_bytes(8) + b"%d" % number)
    assert [name for name, _ in kept(path)] == [f"{path.name}.cut-{n}" for n in (1, 2, 3)]


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("step", range(5))
def test_a_crash_in_between_loses_nothing_and_keeps_it_once(
    step: int, goes_on: bool, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended at a step, of: the copy is written, synced, renamed, its name synced, the file cut."""
    monkeypatch.setattr(tail.os, "fsync", _counted(os.fsync, ended := [step]))
    monkeypatch.setattr(Path, "replace", _counted(Path.replace, ended))
    monkeypatch.setattr(tail, "sync_directory", _counted(tail.sync_directory, ended))
    with open_log(tmp_path) as log:
        log.append(b"new", b"v", 7)
        with pytest.raises(KeyboardInterrupt):
            log.commit()
        left = path.read_bytes()[-len(HALF) :]
        assert HALF in (left, *(data for _, data in kept(path)))
        monkeypatch.undo()
        if goes_on:
            assert log.commit() == 13
    with open_log(tmp_path) as log:
        fill(log, 1)
    assert kept(path) == [(f"{path.name}.cut-1", HALF)]
    assert [record.offset for record in read_whole(tmp_path)][:12] == list(range(12))


def _counted(real: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """A function that is interrupted once so many calls were made."""

    def call(*args: Any) -> Any:
        if left[0] == 0:
            left[0] = -1
            raise KeyboardInterrupt
        left[0] -= 1
        return real(*args)

    return call


def test_a_full_disk_cuts_nothing_off(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = path.read_bytes()
    with open_log(tmp_path) as log:
        log.append(b"new", b"v", 7)
        monkeypatch.setattr(tail.os, "fsync", full)
        with pytest.raises(StorageFullError, match="The log's end is unchanged"):
            log.commit()
        assert (path.read_bytes(), kept(path)) == (data, [])
        monkeypatch.undo()
        assert log.commit() == 13
    assert kept(path) == [(f"{path.name}.cut-1", HALF)]


def test_no_reader_takes_them_for_segments(path: Path, tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        fill(log, 8)
        whole = contents(log)
    assert len(kept(path)) == 1
    assert read_whole(tmp_path) == whole
    assert read_by_kafka_python(path.read_bytes()) == whole
    with FileChangelog(tmp_path, path.parent.name[:-2], config=LogConfig()) as log:
        log.roll()
        log.compact()
        assert log.high_watermark == 20
    assert len(kept(path)) == 1


# ---------------------------------------------------------------- where a log begins


def test_where_a_log_begins_is_noted_by_its_first_write(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append(b"k", b"v", 1)
        assert noted_start(log.path) is None
        log.commit()
        assert noted_start(log.path) == 0


def test_a_first_write_that_fails_notes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path) as log:
        log.append(b"k", b"v", 1)
        monkeypatch.setattr(os, "pwrite", _counted(os.pwrite, [0]))
        with pytest.raises(KeyboardInterrupt):
            log.commit()
        assert noted_start(log.path) is None
    open_log(tmp_path).close()


def test_expiry_moves_it_on(tmp_path: Path) -> None:
    with open_log(tmp_path, **EXPIRING, clock=lambda: 0.04) as log:
        fill(log, 60)
        first = list_segments(log.path)[0]
        log.compact()
        start = log.start_offset
        assert start > first.base_offset
        assert noted_start(log.path) == start
    assert len(read_whole(tmp_path)) == 60 - start
    list_segments(log.path)[0].path.unlink()
    for read_only in (True, False):
        with (
            pytest.raises(
                CorruptionError, match=f"the first file .* was written from offset {start} on"
            ),
            open_log(tmp_path, read_only=read_only) as log,
        ):
            contents(log)
    (log.path / START).unlink()  # what the message says to do where it was deleted on purpose
    assert read_whole(tmp_path)[0].offset > start


def test_expiry_leaves_a_batch(tmp_path: Path) -> None:
    """Also where the last file has none yet: or the log would be one that has lost all it had."""
    with open_log(tmp_path, **EXPIRING, clock=lambda: 9) as log:
        fill(log, 60)
        log.roll()
        Path(log.path, f"{60:020d}.log").touch()
        log.compact()
        assert len(list_segments(log.path)) == 2
    with open_log(tmp_path) as log:
        assert log.high_watermark == 60


@pytest.mark.parametrize("note", [b"", b"0", b"7 00000000", b"x 0", b"\xff" * 12])
def test_a_note_that_is_not_legible_tells_nothing(note: bytes, path: Path, tmp_path: Path) -> None:
    (path.parent / START).write_bytes(note)
    assert noted_start(path.parent) is None
    assert len(read_whole(tmp_path)) == 12
    with open_log(tmp_path) as log:
        fill(log, 1)
    assert noted_start(path.parent) == 0
    path.unlink()
    with pytest.raises(InconsistentStateError, match=r"records were written to .* has no batch"):
        open_log(tmp_path)

"""Logs that were not written to their end, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kstore_core.changelog import FileChangelog
from kstore_core.codec import LogRecord, read_batch_head
from kstore_core.errors import CorruptionError
from tests.changelog.logs import contents, files, fill, open_log, read_whole


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """The only segment of a log of some batches."""
    with open_log(tmp_path / "log") as log:
        fill(log, 12)
        (name,) = files(log)
        return log.path / name


def ends_of(data: bytes) -> list[int]:
    """Where batches end, and 0."""
    ends = [0]
    while (head := read_batch_head(data, ends[-1])) is not None:
        ends.append(head.at + head.size)
    return ends


def test_a_log_cut_anywhere_ends_with_its_last_whole_batch(log_file: Path, tmp_path: Path) -> None:
    data = log_file.read_bytes()
    whole = read_whole(tmp_path / "log")
    for cut in range(len(data)):
        log_file.write_bytes(data[:cut])
        end = max(end for end in ends_of(data) if end <= cut)
        found = read_whole(tmp_path / "log")
        assert found == whole[: len(found)]
        assert log_file.read_bytes() == data[:cut], "a reader changed the log"
        with open_log(tmp_path / "log") as log:
            assert log_file.read_bytes() == data[:end]
            assert contents(log) == found
            assert log.high_watermark == len(found)
            log.append(b"new", b"v", 0)
        assert [r.offset for r in read_whole(tmp_path / "log")] == list(range(len(found) + 1))


@pytest.mark.parametrize("zeros", [1, 11, 16, 17, 61, 5000])
def test_zeros_at_the_end_are_a_torn_tail(zeros: int, log_file: Path, tmp_path: Path) -> None:
    data = log_file.read_bytes()
    whole = read_whole(tmp_path / "log")
    log_file.write_bytes(data + bytes(zeros))
    assert read_whole(tmp_path / "log") == whole
    with open_log(tmp_path / "log") as log:
        assert contents(log) == whole
    assert log_file.read_bytes() == data


def test_a_flipped_byte_is_an_error_or_no_difference(tmp_path: Path) -> None:
    """Never a shorter log: neither for a reader, nor by a writer that takes damage for a torn tail.

    But for the base offset of the last batch, which no checksum covers and nothing contradicts.
    """
    with open_log(tmp_path / "good", segment_bytes=500) as log:
        fill(log, 20)
        names = files(log)
    whole = read_whole(tmp_path / "good")
    for name in names:
        path = tmp_path / "good" / log.path.name / name
        data = path.read_bytes()
        last = ends_of(data)[-2] if name == names[-1] else len(data)
        for at in range(len(data)):
            bad = bytearray(data)
            bad[at] ^= 0xFF if at % 2 else 0x01
            path.write_bytes(bad)
            for read_only in (True, False):
                check_flip(tmp_path / "good", whole, read_only, at - last)
                assert read_only or path.read_bytes() == bad, "damage was cut off"
        path.write_bytes(data)


def check_flip(root: Path, whole: list[LogRecord], read_only: bool, in_last: int) -> None:
    try:
        with open_log(root, read_only=read_only) as log:
            found = contents(log)
    except CorruptionError:
        return
    if 0 <= in_last < 8:
        assert [record.value for record in found] == [record.value for record in whole]
    elif 8 <= in_last < 12 and read_only:
        assert found == whole[: len(found)]  # a reader cannot tell it from a batch being written
    else:
        assert found == whole


def test_damage_says_where(log_file: Path, tmp_path: Path) -> None:
    data = bytearray(log_file.read_bytes())
    end = ends_of(data)[2]
    data[end + 70] ^= 1
    log_file.write_bytes(data)
    for read_only in (True, False):
        words = rf"00000000000000000000\.log: record batch at byte {end}, offset \d+: its checksum"
        with (
            pytest.raises(CorruptionError, match=words),
            open_log(tmp_path / "log", read_only=read_only) as log,
        ):
            contents(log)
    assert log_file.read_bytes() == data


def test_a_damaged_length_is_no_torn_tail(log_file: Path, tmp_path: Path) -> None:
    data = log_file.read_bytes()
    for end in ends_of(data)[:-1]:
        bad = bytearray(data)
        bad[end + 8] ^= 0x40  # longer than the file
        log_file.write_bytes(bad)
        with pytest.raises(CorruptionError, match=rf"the batch at byte {end}, offset \d+, is dama"):
            open_log(tmp_path / "log")
        assert log_file.read_bytes() == bad


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    with open_log(tmp_path / "log", segment_bytes=500) as log:
        fill(log, 100)
        names = files(log)
    assert len(names) > 4
    for name in names[1:-1]:
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "log", copy)
        (copy / log.path.name / name).unlink()
        with pytest.raises(
            CorruptionError, match=rf"no segment begins with the offset {int(name[:20])}, "
        ):
            read_whole(copy)
        shutil.rmtree(copy)


def test_a_closed_segment_that_is_cut_short_is_noticed(tmp_path: Path) -> None:
    with open_log(tmp_path / "log", segment_bytes=500) as log:
        fill(log, 40)
        path = log.path / files(log)[1]
    data = path.read_bytes()
    for cut in range(0, len(data), 13):
        path.write_bytes(data[:cut])
        with pytest.raises(CorruptionError, match="no segment begins with the offset"):
            read_whole(tmp_path / "log")


def test_a_segment_under_another_name_is_noticed(log_file: Path, tmp_path: Path) -> None:
    log_file.rename(log_file.with_name("00000000000000000005.log"))
    for read_only in (True, False):
        with (
            pytest.raises(CorruptionError, match="has the offsets 0 to"),
            open_log(tmp_path / "log", read_only=read_only) as log,
        ):
            contents(log)


def test_other_files_are_left_alone(log_file: Path, tmp_path: Path) -> None:
    for name in ("0.log", "00000000000000000000.index", "leader-epoch-checkpoint"):
        (log_file.parent / name).write_bytes(b"Kafka's")
    assert len(read_whole(tmp_path / "log")) == 12
    with open_log(tmp_path / "log") as log:
        assert len(files(log)) == 4


def test_an_offset_that_no_batch_of_the_segment_can_have(tmp_path: Path) -> None:
    """A base offset is not covered by the checksum of its batch."""
    with FileChangelog(tmp_path, "t") as log:
        log.append(b"k", b"v", 1)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[3] = 1
    path.write_bytes(data)
    for read_only in (True, False):
        with (
            pytest.raises(CorruptionError, match="more than 2147483647 behind the first"),
            FileChangelog(tmp_path, "t", read_only=read_only) as log,
        ):
            list(log.read())

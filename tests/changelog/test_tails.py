"""Logs that were not written to their end, and damaged ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kstore_core.changelog import FileChangelog
from kstore_core.changelog.files import segment, tail
from kstore_core.changelog.files.segment import Segment
from kstore_core.changelog.files.start import START
from kstore_core.changelog.files.tail import cuts
from kstore_core.codec import LogRecord, read_batch_head
from kstore_core.errors import CorruptionError, InconsistentStateError
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
    """Opening it changes nothing; the first write moves aside what is behind that batch."""
    data = log_file.read_bytes()
    whole = read_whole(tmp_path / "log")
    for cut in range(ends_of(data)[1], len(data)):
        log_file.write_bytes(data[:cut])
        end = max(end for end in ends_of(data) if end <= cut)
        found = read_whole(tmp_path / "log")
        assert found == whole[: len(found)]
        with open_log(tmp_path / "log") as log:
            assert contents(log) == found
            assert log.high_watermark == len(found)
            assert log.rest.kind == ("torn" if cut > end else "none")
            assert log_file.read_bytes() == data[:cut], "opening it changed the log"
            log.append(b"new", b"v", 0)
            log.commit()
            assert log_file.read_bytes()[:end] == data[:end]
        assert [r.offset for r in read_whole(tmp_path / "log")] == list(range(len(found) + 1))
        assert [path.read_bytes() for path in cuts(log_file.parent)] == [data[end:cut]] * (
            cut > end
        )
        for path in cuts(log_file.parent):
            path.unlink()


def test_a_torn_end_that_the_next_writer_cuts_off_meanwhile(
    log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the file is examined in two steps; the writer comes between them."""
    size = log_file.stat().st_size
    with log_file.open("ab") as file:
        file.write(b"\0" * 7 + b"\x0c" + bytes(8))
    begun_before_zeros = tail.begun_before_zeros

    def cut_and_examine(*where: Any) -> int | None:
        os.truncate(log_file, size)
        return begun_before_zeros(*where)

    monkeypatch.setattr(tail, "begun_before_zeros", cut_and_examine)
    assert tail.find_end(Segment(0, log_file))[1].kind == "none"


def test_zeros_that_the_next_writer_replaces_meanwhile(
    log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer comes after the read of the zeros, and before the file is examined again."""
    with log_file.open("ab") as file:
        file.write(bytes(2000))
    begun_before_zeros = segment.begun_before_zeros

    def replace_and_examine(*where: Any) -> int | None:
        monkeypatch.undo()
        with open_log(tmp_path / "log") as log:
            fill(log, 3)
        return begun_before_zeros(*where)

    with open_log(tmp_path / "log", read_only=True) as reader:
        monkeypatch.setattr(segment, "begun_before_zeros", replace_and_examine)
        assert reader.high_watermark == 15


def test_a_write_that_its_writer_takes_back(
    log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a full disk, for example. A reader may have seen it, and then sees another one."""
    before = log_file.read_bytes()

    def put(value: bytes) -> None:
        with open_log(tmp_path / "log") as log:
            log.append(b"k", value, 0)
            log.commit()

    with open_log(tmp_path / "log", read_only=True) as reader:
        put(b"unfinished")
        reading = reader.read()
        assert reader.high_watermark == 13
        log_file.write_bytes(before)
        assert sum(map(len, reading)) == 12
        put(b"unfinished")
        rest_of = tail._rest_of

        def take_back_and_look(*where: Any) -> Any:
            monkeypatch.undo()
            os.truncate(log_file, len(before))
            put(b"longer than the unfinished one")
            return rest_of(*where)

        monkeypatch.setattr(tail, "_rest_of", take_back_and_look)
        assert reader.high_watermark == 13
        assert contents(reader)[-1].value == b"longer than the unfinished one"


@pytest.mark.parametrize("place", [0, -1])
def test_a_segment_that_is_a_link_to_a_missing_file(tmp_path: Path, place: int) -> None:
    with open_log(tmp_path, segment_bytes=700) as log:
        fill(log, 60)
        path = log.path / files(log)[place]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert len(read_whole(tmp_path)) == 60
    (tmp_path / "elsewhere").unlink()
    with pytest.raises(CorruptionError, match="missing"):
        read_whole(tmp_path)


def test_the_first_file_is_lost_before_the_records_are_read(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=700) as log:
        fill(log, 60)
        reading = log.read()
        (log.path / files(log)[0]).unlink()
        with pytest.raises(CorruptionError, match="the first file of the log"):
            next(reading)


def test_a_log_that_has_lost_all_that_it_had(log_file: Path, tmp_path: Path) -> None:
    """Once a batch was written there is one; a log without any is no new one."""
    data = log_file.read_bytes()
    for left in (b"", bytes(len(data)), data[:1], data[: ends_of(data)[1] - 1]):
        log_file.write_bytes(left)
        with (
            pytest.raises(InconsistentStateError, match=r"were written to .* no (whole )?batch"),
            open_log(tmp_path / "log"),
        ):
            pass
        with pytest.raises(InconsistentStateError, match=r"no (whole )?batch"):
            read_whole(tmp_path / "log")
        assert log_file.read_bytes() == left
    log_file.unlink()
    with pytest.raises(InconsistentStateError, match=r"records were written to .* no batch"):
        open_log(tmp_path / "log")


@pytest.mark.parametrize("cut", [1, 8, 16, 17, 61, 100])
def test_a_first_write_that_was_not_finished(cut: int, log_file: Path, tmp_path: Path) -> None:
    """It leaves the beginning of a batch, and no note of where the log begins."""
    left = log_file.read_bytes()[:cut]
    (log_file.parent / START).unlink()
    log_file.write_bytes(left)
    assert read_whole(tmp_path / "log") == []
    with open_log(tmp_path / "log") as log:
        fill(log, 3)
    assert len(read_whole(tmp_path / "log")) == 3


def test_zeros_alone_tell_nothing(log_file: Path, tmp_path: Path) -> None:
    """They may be of a first write, or all that is left of an older log, which has no note."""
    size = log_file.stat().st_size
    (log_file.parent / START).unlink()
    log_file.write_bytes(bytes(size))
    for read_only in (True, False):
        with (
            pytest.raises(InconsistentStateError, match=f"may have lost .* {size} zero bytes"),
            open_log(tmp_path / "log", read_only=read_only) as log,
        ):
            contents(log)
    assert log_file.read_bytes() == bytes(size)


@pytest.mark.parametrize("zeros", [1, 11, 16, 17, 61, 5000])
def test_zeros_at_the_end_are_moved_aside(zeros: int, log_file: Path, tmp_path: Path) -> None:
    data = log_file.read_bytes()
    whole = read_whole(tmp_path / "log")
    log_file.write_bytes(data + bytes(zeros))
    assert read_whole(tmp_path / "log") == whole
    with open_log(tmp_path / "log") as log:
        assert contents(log) == whole
        # The next batch begins with seven zeros and a twelve.
        assert (log.rest.kind, log.rest.size) == ("torn" if zeros < 8 else "zeros", zeros)
        log.roll()
    assert log_file.read_bytes() == data
    assert [path.read_bytes() for path in cuts(log_file.parent)] == [bytes(zeros)]


@pytest.mark.parametrize(
    "garbage",
    [b"x", b"\x01", b"garbage", bytes(7) + b"\x0b" + b"\0\0\x10\0half", b"\xff" * 16],
    ids=repr,
)
def test_garbage_at_the_end_is_no_torn_tail(garbage: bytes, log_file: Path, tmp_path: Path) -> None:
    """The batch that comes next begins with offset 12; for a reader, too, nothing else is torn."""
    data = log_file.read_bytes() + garbage
    log_file.write_bytes(data)
    for read_only in (True, False):
        with (
            pytest.raises(CorruptionError, match="first bytes do not fit a batch that begins at"),
            open_log(tmp_path / "log", read_only=read_only) as log,
        ):
            contents(log)
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
            CorruptionError, match=rf"no segment contains offset {int(name[:20])}\."
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
        with pytest.raises(CorruptionError, match="no segment contains offset"):
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
            pytest.raises(CorruptionError, match="more than 2147483647 above the segment"),
            FileChangelog(tmp_path, "t", read_only=read_only) as log,
        ):
            list(log.read())

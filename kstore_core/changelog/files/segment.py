"""The segments of a log. A segment is a file that contains consecutive batches of records."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kstore_core.codec import (
    BatchHead,
    RecordColumns,
    decode_record_columns,
    find_batch,
    read_batch_head,
)
from kstore_core.codec.log.batch.checksum import crc32c
from kstore_core.errors import CorruptionError, FormatError, UnsupportedError

__all__ = [
    "DRAFT",
    "MAX_OFFSET_DELTA",
    "MERGED",
    "Segment",
    "batches",
    "begun_before_zeros",
    "end_offset",
    "ends_in_zeros",
    "fault_of",
    "following",
    "heads",
    "identity",
    "list_segments",
    "merged_offsets",
    "named",
    "opened",
    "records",
]

MAX_OFFSET_DELTA = 2**31 - 1
"""The greatest difference between offsets of a segment. Kafka stores it as a 32-bit int."""

DRAFT = ".cleaned"
"""The suffix of a draft. Compaction writes a segment as a draft, and then renames the draft."""

MERGED = ".merged"
"""The suffix of the file that lists the segments which compaction merges into another segment.

The list is valid once the draft of the other segment is renamed.
"""

_NAME = re.compile(r"(\d{20})\.log")
_CHUNK_BYTES = 1024 * 1024
_SUMMED_FROM, _CRC, _LENGTH = 21, slice(17, 21), slice(8, 12)
_BLOCK = 512
"""The size in bytes of a block, the unit in which a disk writes."""

_LEAST_ZEROS = 16
"""The minimum number of zeros at the start of a block that are regarded as lost bytes.

A batch may end with fewer zeros.
"""


class Segment(NamedTuple):
    """A file of batches. The file's name contains the segment's base offset.

    Attributes
    ----------
    base_offset : int
        The lowest offset that the segment may contain. Later segments have higher base offsets.
    path : Path
    """

    base_offset: int
    path: Path

    @classmethod
    def at(cls, directory: Path, base_offset: int) -> Segment:
        return cls(base_offset, directory / f"{base_offset:020d}.log")


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments in a partition's directory, the oldest first.

    Segments that a compaction has replaced but not yet removed are left out.
    """
    while True:
        names = _names(directory)
        markers = [
            directory / name
            for name in names
            if name.endswith(MERGED) and name.removesuffix(MERGED) + DRAFT not in names
        ]
        gone = {offset for marker in markers for offset in merged_offsets(marker)}
        # Between the two reads, of the names and of the marker, a compaction may have removed the
        # replaced segments and then the marker.
        if not markers or names == _names(directory):
            break
    found = (int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
    return [Segment.at(directory, offset) for offset in sorted(found) if offset not in gone]


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()


def merged_offsets(marker: Path) -> list[int]:
    """Return the base offsets of the replaced segments that a ``.merged`` file lists.

    The result is empty if the file is missing or cannot be parsed.
    """
    try:
        return [int(offset) for offset in json.loads(marker.read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def records(
    segment: Segment, from_offset: int, end: int | None = None, *, file: int | None = None
) -> Iterator[RecordColumns]:
    """Read a segment's records from an offset on, about one MiB of the file at a time.

    Parameters
    ----------
    end : int, optional
        The position in the file, in bytes, to stop at. Default: the end of the last whole batch.
    file : int, optional
        The descriptor of the segment's file. Default: the iterator opens the file.

    Yields
    ------
    RecordColumns
        Columns that may have no records. ``next_offset`` of the last columns is the offset after
        the segment.

    Raises
    ------
    CorruptionError
        A whole batch is damaged; the message names the file and the position.
    FileNotFoundError
        The segment was merged into another segment, or has expired.
    """
    with opened(segment, file) as file:
        position, size, next_offset = 0, _CHUNK_BYTES, segment.base_offset
        while data := os.pread(file, size if end is None else min(size, end - position), position):
            with named(segment):
                columns = decode_record_columns(
                    data, from_offset=from_offset, min_offset=next_offset, position=position
                )
                _check_reach(segment, columns.next_offset - 1)
            if columns.stopped_at:
                position, size = position + columns.stopped_at, _CHUNK_BYTES
                next_offset = columns.next_offset
                from_offset = max(next_offset, from_offset)
                yield columns
            elif len(data) == size:
                size *= 2  # The batch is larger than the bytes that were read.
            else:
                return


def heads(
    segment: Segment, at: int = 0, *, verify: bool = False, file: int | None = None
) -> Iterator[BatchHead]:
    """Return an iterator over the heads of a segment's whole batches from byte `at` on.

    The iteration ends at an incomplete batch, and where the rest of the file is zeros.

    Parameters
    ----------
    verify : bool
        If True, check the checksums of the batches.
    file : int, optional
        The descriptor of the segment's file. Default: the iterator opens the file.

    Raises
    ------
    CorruptionError
        A batch is damaged.
    FileNotFoundError
        The segment was merged into another segment, or has expired.
    """
    return (head for head, _, _ in _walk(segment, at, verify, file))


def end_offset(segment: Segment, file: int | None = None) -> int:
    """Return the offset after a segment's last whole batch. See `heads`."""
    end = segment.base_offset
    for head in heads(segment, file=file):
        end = head.last_offset + 1
    return end


def identity(segment: Segment) -> tuple[int, int, int] | None:
    """Return the inode number, size and modification time of a segment's file.

    A compaction changes the identity. Return None if the file is missing.
    """
    try:
        status = segment.path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def following(segments: list[Segment], segment: Segment) -> Segment | None:
    """Return the first segment after a segment, or None if it is the last."""
    return next((one for one in segments if one.base_offset > segment.base_offset), None)


def batches(segment: Segment) -> Iterator[tuple[BatchHead, bytes]]:
    """Return an iterator over the head and the bytes of each whole batch of a segment.

    The checksums of the batches are checked.
    """
    return (
        (head, data[here : here + head.size]) for head, data, here in _walk(segment, 0, verify=True)
    )


def _walk(
    segment: Segment, at: int, verify: bool, file: int | None = None
) -> Iterator[tuple[BatchHead, bytes, int]]:
    """Yield the head of each batch, a chunk of the file, and the batch's index in the chunk."""
    with opened(segment, file) as file:
        position, size, next_offset = at, _CHUNK_BYTES, segment.base_offset
        while data := os.pread(file, size, position):
            here = 0
            while True:
                with named(segment):
                    try:
                        head = read_batch_head(data, here, verify=verify, position=position)
                    except (CorruptionError, UnsupportedError):
                        if begun_before_zeros(file, segment, position + here, next_offset) is None:
                            if os.pread(file, len(data) - here, position + here) == data[here:]:
                                raise
                            break  # The writer has replaced these bytes since they were read.
                        return
                    if head is None:
                        break
                    if not next_offset <= head.base_offset <= head.last_offset:
                        raise CorruptionError(
                            f"the batch at byte {head.at} has the offsets {head.base_offset} to "
                            f"{head.last_offset}, but its first offset must be {next_offset} or "
                            "above"
                        )
                    _check_reach(segment, head.last_offset)
                yield head, data, here
                here += head.size
                next_offset = head.last_offset + 1
            if here:
                position, size = position + here, _CHUNK_BYTES
            elif len(data) == size:
                size *= 2
            else:
                return


def _check_reach(segment: Segment, last_offset: int) -> None:
    """Raise CorruptionError if an offset is too far from the segment's base offset.

    The check finds damaged offsets, because the checksums of batches do not cover offsets.
    """
    if last_offset - segment.base_offset > MAX_OFFSET_DELTA:
        raise CorruptionError(
            f"a batch ends with the offset {last_offset}, which is more than {MAX_OFFSET_DELTA} "
            f"above the segment's base offset {segment.base_offset}"
        )


def fault_of(segment: Segment, rest: bytes, next_offset: int) -> str | None:
    """Return the reason why the bytes after the last whole batch are damaged, else None.

    The bytes are not damaged if they are the beginning of the next batch and contain no intact
    batch. An interrupted write leaves such bytes.
    """
    if not _may_begin(segment, rest, next_offset):
        return f"its first bytes do not fit a batch that begins at offset {next_offset}"
    if find_batch(rest, 1, min_offset=next_offset) is not None:
        return "its length field points after the end of the file, but an intact batch follows"
    summed = rest[_SUMMED_FROM:]
    if summed and crc32c(summed) == int.from_bytes(rest[_CRC], "big"):
        return (
            "its length field points after the end of the file, but its checksum fits the bytes "
            "up to the end"
        )
    return None


def _may_begin(segment: Segment, rest: bytes, next_offset: int) -> bool:
    """Return True if the bytes can be the beginning of a batch from `next_offset` on.

    A power cut may replace bytes by zeros, so zeros at the end match any value.
    """
    known = rest.rstrip(b"\0")[:8]
    least, most = (int.from_bytes(known.ljust(8, fill), "big") for fill in (b"\0", b"\xff"))
    return most >= next_offset and least <= segment.base_offset + MAX_OFFSET_DELTA


def begun_before_zeros(file: int, segment: Segment, position: int, next_offset: int) -> int | None:
    """Return the number of bytes before the zeros that a power cut has left in a segment.

    After a power cut, a write that was not synced may have some blocks on the disk, and zeros in
    place of the other blocks.

    Parameters
    ----------
    position : int
        The end of the last whole batch.

    Returns
    -------
    int or None
        The number of bytes of an incomplete batch between `position` and the zeros; 0 if all bytes
        from `position` on are zeros. None if a power cut cannot have left these bytes.
    """
    size = os.fstat(file).st_size
    if not ends_in_zeros(file, size):
        return 0 if _are_zeros(file, position) else None
    if _are_zeros(file, position):
        return 0
    rest = os.pread(file, size - position, position)
    begun = len(rest.rstrip(b"\0"))
    length = int.from_bytes(rest[_LENGTH], "big", signed=True)
    if (
        size - -(-(position + begun) // _BLOCK) * _BLOCK < _LEAST_ZEROS
        or (begun >= _LENGTH.stop and _LENGTH.stop + length <= begun)
        or not _may_begin(segment, rest, next_offset)
        or find_batch(rest, min_offset=next_offset) is not None
    ):
        return None
    return begun


def ends_in_zeros(file: int, size: int) -> bool:
    """Return True if a file's last block has at least `_LEAST_ZEROS` bytes and only zeros."""
    begin = max(size - _LEAST_ZEROS, 0) // _BLOCK * _BLOCK
    return not os.pread(file, size - begin, begin).strip(b"\0")


def _are_zeros(file: int, position: int) -> bool:
    """Return True if a file has only zeros from a position on."""
    while data := os.pread(file, _CHUNK_BYTES, position):
        if data.strip(b"\0"):
            return False
        position += len(data)
    return True


@contextmanager
def opened(segment: Segment, file: int | None = None) -> Iterator[int]:
    """Open a segment's file for reading, unless its descriptor is given, and yield the descriptor.

    A compaction may replace the file by another one. All reads by one descriptor see the same file.
    """
    if file is not None:
        yield file
        return
    # Unlike a bare descriptor, a file object is closed when Python frees the object.
    with segment.path.open("rb", buffering=0) as opened_file:
        yield opened_file.fileno()


@contextmanager
def named(segment: Segment) -> Iterator[None]:
    """Add the path of the segment's file to errors about the file's bytes."""
    try:
        yield
    except (CorruptionError, FormatError) as error:
        raise CorruptionError(
            f"{segment.path}: {error}. Nothing was changed; take the file from a copy of the log, "
            "or restore the store from its source"
        ) from error
    except UnsupportedError as error:
        raise UnsupportedError(f"{segment.path}: {error}") from error

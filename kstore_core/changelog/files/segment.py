"""One file of a log: its name, the heads of its batches, its records."""

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
    "ends_in_zeros",
    "fault_of",
    "heads",
    "list_segments",
    "merged_offsets",
    "named",
    "records",
]

MAX_OFFSET_DELTA = 2**31 - 1
"""The widest span of a segment's offsets: Kafka's index has 32 bits for it."""

DRAFT = ".cleaned"
"""Ends the name of a segment that compaction is writing."""

MERGED = ".merged"
"""Ends the name of a list of segments that the one of that name replaces, once it has no draft."""

_NAME = re.compile(r"(\d{20})\.log")
_CHUNK_BYTES = 1024 * 1024
_SUMMED_FROM, _CRC, _LENGTH = 21, slice(17, 21), slice(8, 12)
_BLOCK = 512
"""The least that a disk writes or does not, in bytes."""

_LEAST_ZEROS = 16
"""Fewer at the start of a block are taken for the end of a batch, which often has some."""


class Segment(NamedTuple):
    """A file of batches, whose first offset is in its name.

    Attributes
    ----------
    base_offset : int
        No record's offset is lower; those of later segments are higher.
    path : Path
    """

    base_offset: int
    path: Path

    @classmethod
    def at(cls, directory: Path, base_offset: int) -> Segment:
        return cls(base_offset, directory / f"{base_offset:020d}.log")


def list_segments(directory: Path) -> list[Segment]:
    """The segments of a partition's directory, oldest first; what else is there is left alone.

    Those that a compaction has replaced and not removed yet are none.
    """
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    gone: set[int] = set()
    for name in names:
        if name.endswith(MERGED) and name.removesuffix(MERGED) + DRAFT not in names:
            gone.update(merged_offsets(directory / name))
    found = (int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
    return [Segment.at(directory, offset) for offset in sorted(found) if offset not in gone]


def merged_offsets(marker: Path) -> list[int]:
    """The segments that a compacted one replaces; none where nothing says so legibly."""
    try:
        return [int(offset) for offset in json.loads(marker.read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def records(segment: Segment, from_offset: int, end: int | None = None) -> Iterator[RecordColumns]:
    """The records of a segment from an offset on, about a MiB of the file at a time.

    Parameters
    ----------
    end : int, optional
        Where in the file to stop. Left out: behind the last whole batch.

    Yields
    ------
    RecordColumns
        Maybe without records; ``next_offset`` of the last ones is the segment's.

    Raises
    ------
    CorruptionError
        Bytes that are all there are damaged; says where.
    FileNotFoundError
        The segment is gone: compacted into another, or expired.
    """
    with _open(segment) as file:
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
                size *= 2  # a batch larger than what was read
            else:
                return


def heads(segment: Segment, at: int = 0, *, verify: bool = False) -> Iterator[BatchHead]:
    """The heads of a segment's whole batches from byte `at` on.

    Stops at a torn tail, and where nothing but zeros follow, or a batch that ends in them.

    Raises
    ------
    CorruptionError, FileNotFoundError
        As `records` does; checksums are looked at if `verify`.
    """
    return (head for head, _, _ in _walk(segment, at, verify))


def batches(segment: Segment) -> Iterator[tuple[BatchHead, bytes]]:
    """The heads and the bytes of a segment's whole batches, their checksums looked at."""
    return (
        (head, data[here : here + head.size]) for head, data, here in _walk(segment, 0, verify=True)
    )


def _walk(segment: Segment, at: int, verify: bool) -> Iterator[tuple[BatchHead, bytes, int]]:
    """Yield each batch's head, with bytes of the file and the batch's offset in them."""
    with _open(segment) as file:
        position, size, next_offset = at, _CHUNK_BYTES, segment.base_offset
        while data := os.pread(file, size, position):
            here = 0
            while True:
                with named(segment):
                    try:
                        head = read_batch_head(data, here, verify=verify, position=position)
                    except (CorruptionError, UnsupportedError):
                        if begun_before_zeros(file, segment, position + here, next_offset) is None:
                            raise
                        return
                    if head is None:
                        break
                    if not next_offset <= head.base_offset <= head.last_offset:
                        raise CorruptionError(
                            f"the batch at byte {head.at} has the offsets {head.base_offset} to "
                            f"{head.last_offset}, where {next_offset} or above is needed"
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
    """Refuse an offset that no batch of the segment can have: checksums do not cover offsets."""
    if last_offset - segment.base_offset > MAX_OFFSET_DELTA:
        raise CorruptionError(
            f"a batch ends with the offset {last_offset}, more than {MAX_OFFSET_DELTA} behind the "
            f"first of the segment, {segment.base_offset}"
        )


def fault_of(segment: Segment, rest: bytes, next_offset: int) -> str | None:
    """Why bytes behind the last whole batch are not the beginning of one that was being written.

    None where they are: of the batch that comes next, not whole, with no sound one behind them.
    """
    if not _may_begin(segment, rest, next_offset):
        return f"its first bytes are none of a batch that begins at offset {next_offset}"
    if find_batch(rest, 1, min_offset=next_offset) is not None:
        return "by its length it ends behind the file, but a sound batch follows"
    summed = rest[_SUMMED_FROM:]
    if summed and crc32c(summed) == int.from_bytes(rest[_CRC], "big"):
        return "by its length it ends behind the file, but it was written whole"
    return None


def _may_begin(segment: Segment, rest: bytes, next_offset: int) -> bool:
    """Return True if bytes, whose zeros at the end may be missing ones, begin a later batch."""
    known = rest.rstrip(b"\0")[:8]
    least, most = (int.from_bytes(known.ljust(8, fill), "big") for fill in (b"\0", b"\xff"))
    return most >= next_offset and least <= segment.base_offset + MAX_OFFSET_DELTA


def begun_before_zeros(file: int, segment: Segment, position: int, next_offset: int) -> int | None:
    """The number of a batch's bytes at a position, where zeros follow up to the end of the file.

    It is what a power cut leaves of a write that was not synced: blocks of the disk, then none.

    Returns
    -------
    int or None
        0 where there are zeros only; None where it is something else.
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
    """Return True if a file's last block of the disk has zeros only, and some of them."""
    begin = max(size - _LEAST_ZEROS, 0) // _BLOCK * _BLOCK
    return not os.pread(file, size - begin, begin).strip(b"\0")


def _are_zeros(file: int, position: int) -> bool:
    """Return True if a file has nothing but zeros from here on."""
    while data := os.pread(file, _CHUNK_BYTES, position):
        if data.strip(b"\0"):
            return False
        position += len(data)
    return True


@contextmanager
def _open(segment: Segment) -> Iterator[int]:
    with segment.path.open("rb", buffering=0) as file:  # an object, which never stays open
        yield file.fileno()


@contextmanager
def named(segment: Segment) -> Iterator[None]:
    """Name the file in what is raised about its bytes."""
    try:
        yield
    except (CorruptionError, FormatError) as error:
        raise CorruptionError(
            f"{segment.path}: {error}. Nothing was changed; take the file from a copy of the log, "
            "or restore the store from its source"
        ) from error
    except UnsupportedError as error:
        raise UnsupportedError(f"{segment.path}: {error}") from error

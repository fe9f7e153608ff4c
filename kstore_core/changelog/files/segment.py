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
"""The widest span of a segment's offsets: Kafka's index has 32 bits for an offset."""

DRAFT = ".cleaned"
"""The suffix of a segment that compaction is writing."""

MERGED = ".merged"
"""The suffix of a list of segments; once its draft is renamed, that segment replaces them."""

_NAME = re.compile(r"(\d{20})\.log")
_CHUNK_BYTES = 1024 * 1024
_SUMMED_FROM, _CRC, _LENGTH = 21, slice(17, 21), slice(8, 12)
_BLOCK = 512
"""The unit in which a disk writes, in bytes."""

_LEAST_ZEROS = 16
"""Fewer zeros at the start of a block may be the end of a batch, which often has some."""


class Segment(NamedTuple):
    """A file of batches, whose first offset is in its name.

    Attributes
    ----------
    base_offset : int
        The lowest possible offset; later segments have higher ones.
    path : Path
    """

    base_offset: int
    path: Path

    @classmethod
    def at(cls, directory: Path, base_offset: int) -> Segment:
        return cls(base_offset, directory / f"{base_offset:020d}.log")


def list_segments(directory: Path) -> list[Segment]:
    """Return the segments of a partition's directory, oldest first.

    Segments that a compaction has replaced and not removed yet are left out.
    """
    names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    gone: set[int] = set()
    for name in names:
        if name.endswith(MERGED) and name.removesuffix(MERGED) + DRAFT not in names:
            gone.update(merged_offsets(directory / name))
    found = (int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
    return [Segment.at(directory, offset) for offset in sorted(found) if offset not in gone]


def merged_offsets(marker: Path) -> list[int]:
    """The base offsets in a list of replaced segments; none if the file is missing or illegible."""
    try:
        return [int(offset) for offset in json.loads(marker.read_bytes())]
    except (OSError, ValueError, TypeError):
        return []


def records(segment: Segment, from_offset: int, end: int | None = None) -> Iterator[RecordColumns]:
    """Read a segment from an offset on, about a MiB of the file at a time.

    Parameters
    ----------
    end : int, optional
        The position in the file to stop at. Default: after the last whole batch.

    Yields
    ------
    RecordColumns
        They may have no records; ``next_offset`` of the last ones is the segment's.

    Raises
    ------
    CorruptionError
        A whole batch is damaged; the text says where.
    FileNotFoundError
        The segment was compacted into another one, or has expired.
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
                size *= 2  # the batch is larger than the bytes that were read
            else:
                return


def heads(segment: Segment, at: int = 0, *, verify: bool = False) -> Iterator[BatchHead]:
    """Return the heads of a segment's whole batches from byte `at` on.

    The iteration stops at a torn tail, and where only zeros follow, or a batch that ends in them.

    Raises
    ------
    CorruptionError, FileNotFoundError
        As `records` raises them; checksums are verified if `verify`.
    """
    return (head for head, _, _ in _walk(segment, at, verify))


def batches(segment: Segment) -> Iterator[tuple[BatchHead, bytes]]:
    """Return the heads and the bytes of a segment's whole batches; checksums are verified."""
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
    """Refuse an offset too far from the segment's first: checksums do not cover offsets."""
    if last_offset - segment.base_offset > MAX_OFFSET_DELTA:
        raise CorruptionError(
            f"a batch ends with the offset {last_offset}, more than {MAX_OFFSET_DELTA} after the "
            f"first of the segment, {segment.base_offset}"
        )


def fault_of(segment: Segment, rest: bytes, next_offset: int) -> str | None:
    """The reason why bytes after the last whole batch are no torn write; None if they are one.

    A torn write is an incomplete next batch, with no sound batch after it.
    """
    if not _may_begin(segment, rest, next_offset):
        return f"its first bytes do not fit a batch that begins at offset {next_offset}"
    if find_batch(rest, 1, min_offset=next_offset) is not None:
        return "by its length it ends after the file's end, but a sound batch follows"
    summed = rest[_SUMMED_FROM:]
    if summed and crc32c(summed) == int.from_bytes(rest[_CRC], "big"):
        return "by its length it ends after the file's end, but its checksum shows a whole batch"
    return None


def _may_begin(segment: Segment, rest: bytes, next_offset: int) -> bool:
    """Return True if bytes may begin a later batch; zeros at their end stand for lost bytes."""
    known = rest.rstrip(b"\0")[:8]
    least, most = (int.from_bytes(known.ljust(8, fill), "big") for fill in (b"\0", b"\xff"))
    return most >= next_offset and least <= segment.base_offset + MAX_OFFSET_DELTA


def begun_before_zeros(file: int, segment: Segment, position: int, next_offset: int) -> int | None:
    """The number of bytes of a batch at a position, if zeros follow up to the end of the file.

    A power cut leaves a write that was not synced so: some blocks of the disk, then zeros.

    Returns
    -------
    int or None
        0 if there are only zeros; None if the bytes are anything else.
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
    """Return True if the last disk block of a file has only zeros, and at least `_LEAST_ZEROS`."""
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
def _open(segment: Segment) -> Iterator[int]:
    with segment.path.open(
        "rb", buffering=0
    ) as file:  # a file object closes the descriptor when it is freed
        yield file.fileno()


@contextmanager
def named(segment: Segment) -> Iterator[None]:
    """Add the file's name to errors about its bytes."""
    try:
        yield
    except (CorruptionError, FormatError) as error:
        raise CorruptionError(
            f"{segment.path}: {error}. Nothing was changed; take the file from a copy of the log, "
            "or restore the store from its source"
        ) from error
    except UnsupportedError as error:
        raise UnsupportedError(f"{segment.path}: {error}") from error

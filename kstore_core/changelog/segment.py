"""One file of a log: its name, the heads of its batches, its records."""

from __future__ import annotations

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
from kstore_core.codec.checksum import crc32c
from kstore_core.errors import CorruptionError, FormatError, UnsupportedError

__all__ = [
    "MAX_OFFSET_DELTA",
    "Segment",
    "batches",
    "heads",
    "is_torn",
    "list_segments",
    "named",
    "records",
]

MAX_OFFSET_DELTA = 2**31 - 1
"""How far a segment's offsets may go from its first: Kafka's index has 32 bits for it."""

_NAME = re.compile(r"(\d{20})\.log")
_CHUNK_BYTES = 1024 * 1024
_SUMMED_FROM, _CRC = 21, slice(17, 21)


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
    """The segments of a partition's directory, oldest first; what else is there is left alone."""
    paths = directory.iterdir() if directory.is_dir() else ()
    found = ((_NAME.fullmatch(path.name), path) for path in paths)
    return sorted(Segment(int(match[1]), path) for match, path in found if match)


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

    Stops at a torn tail, and where nothing but zeros follow.

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
    """Heads, each with bytes of the file and where in them its batch begins."""
    with _open(segment) as file:
        position, size, next_offset = at, _CHUNK_BYTES, segment.base_offset
        while data := os.pread(file, size, position):
            here = 0
            while True:
                with named(segment):
                    try:
                        head = read_batch_head(data, here, verify=verify, position=position)
                    except CorruptionError:
                        if _are_zeros(file, position + here):
                            return
                        raise
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


def is_torn(tail: bytes, next_offset: int) -> bool:
    """Whether bytes behind the last whole batch are the beginning of one that was being written.

    They are not if a sound batch follows, or if they are a whole batch but for its length: then a
    batch that was written is damaged.
    """
    if find_batch(tail, 1, min_offset=next_offset) is not None:
        return False
    summed = tail[_SUMMED_FROM:]
    return not summed or crc32c(summed) != int.from_bytes(tail[_CRC], "big")


def _are_zeros(file: int, position: int) -> bool:
    """Whether a file has nothing but zeros from here on."""
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

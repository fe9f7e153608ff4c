"""The records of a log from segment to segment, while another process may be compacting it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import Segment, heads, list_segments, records
from kstore_core.changelog.files.tail import Tail
from kstore_core.codec import RecordColumns
from kstore_core.errors import CorruptionError

__all__ = ["read_log"]


def read_log(directory: Path, from_offset: int, tail: Tail) -> Iterator[RecordColumns]:
    """The records from an offset (inclusive) up to a tail, or further.

    Further where the tail's segment was compacted meanwhile: what it held may be superseded by what
    came later.

    Raises
    ------
    CorruptionError
        Bytes are damaged, or no segment has an offset that one must have.
    """
    next_offset = from_offset
    while next_offset < tail.next_offset:
        segments = list_segments(directory)
        segment = _holding(segments, next_offset)
        if segment is None:
            raise _missing(directory, next_offset, tail)
        begun_at = next_offset = max(next_offset, segment.base_offset)
        try:
            gap = _gap_behind(segment, segments)
            if gap is not None:
                if list_segments(directory) == segments:
                    raise _missing(directory, gap, tail)
                continue  # compacted since they were listed
            for columns in records(segment, next_offset, _end_of(segment, tail)):
                next_offset = max(next_offset, columns.next_offset)
                if len(columns):
                    yield columns
        except FileNotFoundError:
            continue  # compacted or expired since it was listed
        # A segment that was read to its end may have been replaced by one that goes on, in which
        # case that is read from here on.
        if next_offset == begun_at:
            raise _missing(directory, next_offset, tail)


def _gap_behind(segment: Segment, segments: list[Segment]) -> int | None:
    """The end of a segment, if the next one begins elsewhere.

    It is looked at before any record is read: of files that were swapped, records in the wrong
    place would be restored before the gap is met.
    """
    after = next((one for one in segments if one.base_offset > segment.base_offset), None)
    if after is None:
        return None
    end = segment.base_offset
    for head in heads(segment):
        end = head.last_offset + 1
    return None if end == after.base_offset else end


def _missing(directory: Path, offset: int, tail: Tail) -> CorruptionError:
    return CorruptionError(
        f"{directory}: no segment begins with the offset {offset}, where the one before it ends, "
        f"but the log goes up to {tail.next_offset}: a file is missing or damaged. Take it from a "
        "copy of the log, or restore the store from its source"
    )


def _holding(segments: list[Segment], offset: int) -> Segment | None:
    """The segment in which an offset is, or the first one where all that are left are later."""
    before = [segment for segment in segments if segment.base_offset <= offset]
    return before[-1] if before else next(iter(segments), None)


def _end_of(segment: Segment, tail: Tail) -> int | None:
    """The place in the file to stop at."""
    return tail.position if segment == tail.segment else None

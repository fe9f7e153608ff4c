"""Read a log from segment to segment, while another process may compact it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import Segment, heads, list_segments, records
from kstore_core.changelog.files.tail import Tail
from kstore_core.codec import RecordColumns
from kstore_core.errors import CorruptionError

__all__ = ["read_log"]


def read_log(directory: Path, from_offset: int, tail: Tail) -> Iterator[RecordColumns]:
    """Yield the records from an offset (inclusive) up to a tail, or further.

    Records after the tail are read if the tail's segment was compacted meanwhile: later records may
    have superseded those of the segment.

    Raises
    ------
    CorruptionError
        Bytes are damaged, or a segment is missing.
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
        # Compaction may have replaced the segment by a longer one, which is then read from here.
        if next_offset == begun_at:
            raise _missing(directory, next_offset, tail)


def _gap_behind(segment: Segment, segments: list[Segment]) -> int | None:
    """Return the end of a segment, if the next one begins at another offset.

    This check comes before any record is read: if files were swapped, records in the wrong place
    would be restored before the gap is reached.
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
    """Return the segment of an offset; the first segment if all are later."""
    before = [segment for segment in segments if segment.base_offset <= offset]
    return before[-1] if before else next(iter(segments), None)


def _end_of(segment: Segment, tail: Tail) -> int | None:
    """Return the position in the segment's file to stop at, or None."""
    return tail.position if segment == tail.segment else None

"""The reading of a log's segments in order, while another process may compact the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import Segment, heads, list_segments, records
from kstore_core.changelog.files.tail import Tail
from kstore_core.codec import RecordColumns
from kstore_core.errors import CorruptionError

__all__ = ["read_log"]


def read_log(directory: Path, from_offset: int, tail: Tail) -> Iterator[RecordColumns]:
    """Yield the records from an offset (inclusive) up to a tail, or beyond the tail.

    The tail is the end of the last whole batch. If the segment of the tail was compacted during the
    read, records after the tail are read too, because records after the tail may have superseded
    records before the tail.

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
                continue  # A compaction has changed the segments since they were listed.
            for columns in records(segment, next_offset, _end_of(segment, tail)):
                next_offset = max(next_offset, columns.next_offset)
                if len(columns):
                    yield columns
        except FileNotFoundError:
            continue  # The segment was compacted, or has expired, since it was listed.
        # Compaction may have replaced the segment by a longer one. The next round then reads the
        # longer segment from the offset that was reached.
        if next_offset == begun_at:
            raise _missing(directory, next_offset, tail)


def _gap_behind(segment: Segment, segments: list[Segment]) -> int | None:
    """Return the end offset of a segment if the next segment begins at another offset, else None.

    The caller must look for a gap before it reads the segment's records. Without this check, the
    caller would restore wrong records from two swapped files before it reaches the gap.
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
        f"a file of the log {directory} is missing or damaged: the log ends at offset "
        f"{tail.next_offset}, but no segment contains offset {offset}. Take the file from a copy "
        "of the log, or restore the store from its source"
    )


def _holding(segments: list[Segment], offset: int) -> Segment | None:
    """Return the segment that contains an offset, or the first segment if all begin later."""
    before = [segment for segment in segments if segment.base_offset <= offset]
    return before[-1] if before else next(iter(segments), None)


def _end_of(segment: Segment, tail: Tail) -> int | None:
    """Return the position of the tail if it is in this segment, else None."""
    return tail.position if segment == tail.segment else None

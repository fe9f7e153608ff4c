"""The reading of a log's segments in order, while another process may compact the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import Segment, heads, list_segments, records
from kstore_core.changelog.files.tail import Rest, Tail, find_end
from kstore_core.codec import RecordColumns
from kstore_core.errors import CorruptionError

__all__ = ["holding", "read_end", "read_log"]


def read_end(
    directory: Path, after: Tail | None = None, *, verify: bool = False
) -> tuple[list[Segment], Tail, Rest]:
    """Return a log's segments, the end of its last whole batch, and the bytes after this batch.

    Parameters
    ----------
    after : Tail, optional
        The result of an earlier call. If this end is still in the last segment, the search begins
        there.
    verify : bool
        Check the checksums of all batches of the last segment.

    Raises
    ------
    CorruptionError
        The last segment is damaged.
    """
    while True:
        segments = list_segments(directory)
        if not segments:
            return segments, Tail(Segment.at(directory, 0), 0, 0), Rest("none")
        try:
            tail, rest = find_end(segments[-1], after, verify=verify)
        except FileNotFoundError:
            if list_segments(directory)[-1:] == segments[-1:]:
                raise
            continue  # A compaction has merged the segment into another one.
        rest.check(tail)
        return segments, tail, rest


def read_log(directory: Path, from_offset: int, tail: Tail) -> Iterator[RecordColumns]:
    """Yield the records from an offset (inclusive) up to a tail (exclusive), or up to a later end.

    The tail is the end of the last whole batch. If a compaction changes the segment of the tail
    during the read, this function also yields later records of that segment. They may have
    superseded earlier records, which the compaction has then removed.

    Raises
    ------
    CorruptionError
        Bytes are damaged, or a segment is missing.
    """
    next_offset = from_offset
    end_position: int | None = tail.position
    while next_offset < tail.next_offset:
        segments = list_segments(directory)
        segment = holding(segments, next_offset)
        if segment is None:
            raise _missing(directory, next_offset, tail)
        begun_at = next_offset = max(next_offset, segment.base_offset)
        try:
            gap = _gap_behind(segment, segments)
            if gap is not None:
                if list_segments(directory) == segments:
                    raise _missing(directory, gap, tail)
                continue  # A compaction has changed the segments since they were listed.
            end = end_position if segment == tail.segment else None
            for columns in records(segment, next_offset, end):
                next_offset = max(next_offset, columns.next_offset)
                if len(columns):
                    yield columns
        except FileNotFoundError:
            continue  # The segment was compacted, or has expired, since it was listed.
        # Compaction may have replaced the segment by another file. The next round then reads the
        # new file from the offset that was reached, up to its end.
        if end is not None and next_offset < tail.next_offset:
            end_position = None
        elif next_offset == begun_at and list_segments(directory) == segments:
            raise _missing(directory, next_offset, tail)


def _gap_behind(segment: Segment, segments: list[Segment]) -> int | None:
    """Return the offset at which a segment ends, or None if the next segment begins there.

    The caller must look for a gap before it yields the segment's records. Otherwise it would yield
    the wrong records of two swapped files before it reaches the gap.
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


def holding(segments: list[Segment], offset: int) -> Segment | None:
    """Return the last segment that begins at or below an offset.

    If all segments begin above the offset, return the first segment. If there are none, return
    None.
    """
    before = [segment for segment in segments if segment.base_offset <= offset]
    return before[-1] if before else next(iter(segments), None)

"""The reading of a log's segments in order, while another process may compact the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kstore_core.changelog.files.segment import (
    Segment,
    end_offset,
    following,
    list_segments,
    opened,
    records,
)
from kstore_core.changelog.files.start import check_start
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
        The last segment is damaged, or is a link to a missing file.
    """
    while True:
        segments = list_segments(directory)
        if not segments:
            return segments, Tail(Segment.at(directory, 0), 0, 0), Rest("none")
        try:
            tail, rest = find_end(segments[-1], after, verify=verify)
        except FileNotFoundError:
            if list_segments(directory)[-1:] == segments[-1:]:
                raise CorruptionError(
                    f"{segments[-1].path} is a link to a missing file. Restore the file, or the "
                    "disk that has it"
                ) from None
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
    while next_offset < tail.next_offset:
        segments = list_segments(directory)
        segment = holding(segments, next_offset)
        if segment is None:
            raise _missing(directory, next_offset, tail)
        if segment.base_offset > next_offset:
            check_start(directory, segments)
        begun_at = next_offset = max(next_offset, segment.base_offset)
        try:
            with opened(segment) as file:
                gap = _gap_behind(segment, file, following(segments, segment))
                if gap is None:
                    # If a compaction has replaced the tail's file, the new file is read to its end,
                    # because its later records may have superseded earlier ones.
                    is_end = segment == tail.segment and tail.is_in(file)
                    end = tail.position if is_end else None
                    for columns in records(segment, next_offset, end, file=file):
                        next_offset = max(next_offset, columns.next_offset)
                        if len(columns):
                            yield columns
        except FileNotFoundError:
            gap = next_offset
        # If the segments have changed, the next round reads on from the offset that was reached.
        if (gap is None and next_offset > begun_at) or list_segments(directory) != segments:
            continue
        if gap is None and read_end(directory)[1].next_offset <= next_offset:
            return  # The writer has taken back an unfinished write, which the tail included.
        raise _missing(directory, next_offset if gap is None else gap, tail)


def _gap_behind(segment: Segment, file: int, after: Segment | None) -> int | None:
    """Return the offset at which a segment ends, or None if the next segment begins there.

    The caller must look for a gap before it yields the segment's records. Otherwise it would yield
    the wrong records of two swapped files before it reaches the gap.
    """
    if after is None:
        return None
    end = end_offset(segment, file)
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

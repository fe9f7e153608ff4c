"""A scan that merges cached rows with the rows of a table that has segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from kstore_core.engine import Chunk
from kstore_core.engine.ordered import OrderedScan, close_chunks
from kstore_core.tables.merged import MergedScan

__all__ = ["merged_segments"]


def merged_segments(
    upper: Sequence[tuple[int, OrderedScan]],
    lower: Iterator[Chunk],
    segment_of: Callable[[bytes], int],
    reverse: bool,
) -> Iterator[Chunk]:
    """Yield chunks of the merged rows of ``upper`` and ``lower``, in order of ``(segment, key)``.

    If ``upper`` and ``lower`` both have a row for a key, the result contains the row of ``upper``.
    If the value of that row is None, the result contains no row for the key.

    Parameters
    ----------
    upper : sequence of (segment, scan)
        Each segment with cached rows: its id, and a scan of the rows in the order of the result.
    lower : iterator of (keys, values)
        The chunks of the table, in the order of the result.
    segment_of : callable
        A function that returns the segment id of a key.
    reverse : bool
        True if the result is in descending order.
    """
    waiting = sorted(upper, key=_number, reverse=not reverse)  # The loop reads it from the end.
    try:
        for number, run in groupby(_runs(lower, segment_of), key=_number):
            while waiting and (waiting[-1][0] > number if reverse else waiting[-1][0] < number):
                yield from MergedScan(waiting.pop()[1], (), (), reverse)
            rows = (chunk for _, chunk in run)
            if waiting and waiting[-1][0] == number:
                yield from MergedScan(waiting.pop()[1], rows, (), reverse)
            else:
                yield from rows
        while waiting:
            yield from MergedScan(waiting.pop()[1], (), (), reverse)
    finally:
        close_chunks(lower)


def _number(pair: tuple[int, object]) -> int:
    return pair[0]


def _runs(
    chunks: Iterator[Chunk], segment_of: Callable[[bytes], int]
) -> Iterator[tuple[int, Chunk]]:
    """Yield chunks with their segment ids. Split a chunk that has rows of several segments."""
    for keys, values in chunks:
        first = segment_of(keys[0])
        if segment_of(keys[-1]) == first:
            yield first, (keys, values)
            continue
        begin = 0
        for number, same in groupby(map(segment_of, keys)):
            end = begin + sum(1 for _ in same)
            yield number, (keys[begin:end], values[begin:end])
            begin = end

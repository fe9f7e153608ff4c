"""Merged scans of cached rows and the rows of a table in segments."""

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
    """Chunks in the order of ``(segment, key)``, or its reverse.

    On equal keys the upper row wins; an upper None hides.

    Parameters
    ----------
    upper : sequence of (segment, scan)
        Ascending by segment; each scan in the order of the result.
    lower : iterator of (keys, values)
        In the order of the result.
    segment_of : callable
        The segment of a key.
    """
    waiting = sorted(upper, key=_number, reverse=not reverse)  # the next one is the last
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
    """Chunks with their segments; a chunk with rows of several segments is split."""
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

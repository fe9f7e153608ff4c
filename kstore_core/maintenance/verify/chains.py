"""The check that the versions of a key do not overlap from one row of the key to the next."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from kstore_core.codec import decode_latest, segment_rows
from kstore_core.engine import Namespace
from kstore_core.errors import FormatError
from kstore_core.tables.version_scans import LATEST_PREFIX

__all__ = ["Link", "broken_chains", "version_rows"]

_ID = struct.Struct(">q")
_LATEST = 2**63 - 1
"""The segment number of a key's latest row. This row sorts after the rows of all segments."""


class Link(NamedTuple):
    """A row that contains versions of a key: the latest row, or the key's row in a segment."""

    key: bytes
    segment: int
    stored_key: bytes
    row: bytes

    @property
    def times(self) -> tuple[int, int | None]:
        """The start (inclusive) and the end (exclusive) of the row's versions, in ms.

        The end of the latest row is None.

        Raises
        ------
        FormatError
            The row is damaged.
        """
        if self.segment == _LATEST:
            return decode_latest(self.row)[0], None
        return segment_rows.min_timestamp(self.row), segment_rows.next_timestamp(self.row)


def version_rows(namespaces: Sequence[Namespace]) -> Iterator[tuple[bytes, list[Link]]]:
    """Yield each key, in ascending order, and a list of the key's rows, the oldest row first."""
    streams = [
        _stream(namespace, number)
        for namespace in namespaces
        for number in [*_segments(namespace), _LATEST]
    ]
    merged = heapq.merge(*streams, key=itemgetter(0, 1))
    for key, links in groupby(merged, key=itemgetter(0)):
        yield key, list(links)


def broken_chains(namespaces: Sequence[Namespace]) -> Iterator[tuple[Link, str]]:
    """Yield each row that begins before the previous row of its key ends, and an explanation."""
    for _, links in version_rows(namespaces):
        end: int | None = None
        for link in links:
            try:
                first, beyond = link.times
            except FormatError:
                continue  # the check of single rows reports this row
            if end is not None and first < end:
                yield link, f"the row begins at {first}, before the previous row ends at {end}"
            end = beyond if beyond is not None and (end is None or beyond > end) else end


def _segments(namespace: Namespace) -> Iterator[int]:
    """Yield the ids of the segments in a namespace. Each id costs one seek."""
    lo: bytes | None = None
    while (row := namespace.first(lo, LATEST_PREFIX)) is not None:
        found = int.from_bytes(row[0][:8].ljust(8, b"\0"), "big", signed=True)
        if found < 0:
            return
        yield found
        if found == _LATEST:
            return
        lo = _ID.pack(found + 1)


def _stream(namespace: Namespace, number: int) -> Iterator[Link]:
    latest = number == _LATEST
    lo = LATEST_PREFIX if latest else _ID.pack(number)
    hi = None if latest else _ID.pack(number + 1)
    for keys, rows in namespace.scan(lo, hi):
        for key, row in zip(keys, rows, strict=True):
            if len(key) >= _ID.size:
                yield Link(key[_ID.size :], number, key, row)

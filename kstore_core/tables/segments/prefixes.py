"""Segments that share one table: the keys of a segment begin with its id.

This is the layout on engines without ``capabilities.children``. The id has eight bytes, big-endian,
so the order of the keys is that of (segment, key). A store of many segments opens, upgrades and
commits like a store of a single segment.
"""

from __future__ import annotations

import struct

from kstore_core.errors import InconsistentStateError
from kstore_core.tables import Table, Write
from kstore_core.tables.segments.prefixed import PrefixedTable
from kstore_core.tables.segments.segment import Segment

__all__ = ["ID_BYTES", "PrefixedSegments", "split_id"]

_ID = struct.Struct(">q")
_LAST_ID = 2**63 - 1
ID_BYTES = _ID.size
"""The size of the id in front of each key."""


class PrefixedSegments:
    """The segments that lie in one table.

    Parameters
    ----------
    below : Table
        The table of their rows, without other rows.
    writable : bool
        Delete expired rows.

    Attributes
    ----------
    rows : StagedNamespace
        The common namespace.
    key_overhead : int
        The bytes by which a stored key is longer.
    """

    key_overhead = _ID.size

    def __init__(self, below: Table, *, writable: bool) -> None:
        self.rows = below.rows
        self._below = below
        self._writable = writable

    def segments(self) -> list[Segment]:
        """Return the segments with rows, found by a seek to each."""
        found: list[Segment] = []
        lo: bytes | None = b""
        while lo is not None and (row := self._below.first(lo)) is not None:
            segment = self.segment(split_id(row[0])[0])
            found.append(segment)
            lo = None if segment.id == _LAST_ID else _ID.pack(segment.id + 1)
        return found

    def segment(self, number: int) -> Segment:
        """Return a segment, which may be empty."""
        return _PrefixedSegment(number, self._below)

    def write(self, groups: dict[Segment, list[Write]]) -> None:
        """Write the rows of several segments: all of them, or none."""
        self._below.write(
            Write(_ID.pack(segment.id) + key, value, context)
            for segment, writes in groups.items()
            for key, value, context in writes
        )

    def expire(self, first_live: int) -> None:
        """Delete the rows before ``first_live``. The next commit writes the deletion."""
        if self._writable:
            self._below.delete_range(b"", _ID.pack(first_live))

    def approximate_count(self) -> int:
        """Return the approximate number of rows."""
        return self._below.approximate_count()


class _PrefixedSegment(Segment):
    def __init__(self, number: int, below: Table) -> None:
        super().__init__(number)
        self._below = below

    def open(self) -> Table:
        end = b"\x80" if self.id == _LAST_ID else _ID.pack(self.id + 1)
        return PrefixedTable(self._below, _ID.pack(self.id), end)


def split_id(key: bytes) -> tuple[int, bytes]:
    """Return the id of the segment that a row lies in, and the row's key within it.

    Raises
    ------
    InconsistentStateError
        The key does not begin with an id.
    """
    number: int = _ID.unpack_from(key)[0] if len(key) >= _ID.size else -1
    if number < 0:
        raise InconsistentStateError(
            f"the key {key!r} does not begin with a segment id, so these are not the rows of a "
            "window or session store; open it as the kind of store that it is"
        )
    return number, key[_ID.size :]

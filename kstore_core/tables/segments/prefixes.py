"""The class `PrefixedSegments`: the segments of a store in one shared table.

kstore uses this layout on engines without ``capabilities.children``. Each key begins with a segment
id of eight big-endian bytes, so rows are sorted by segment and then by key. The time of an upgrade
or a commit does not depend on the number of segments. An open makes one seek per segment.
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
"""The size in bytes of the segment id at the beginning of each stored key."""


class PrefixedSegments:
    """The segments of a store in one shared table, where each key begins with a segment id.

    Parameters
    ----------
    below : Table
        The table of the segments' rows. It must not contain other rows.
    writable : bool
        If True, delete expired rows from the table.

    Attributes
    ----------
    rows : StagedNamespace
        The namespace of the table.
    key_overhead : int
        The number of bytes that the segment id adds to each key.
    """

    key_overhead = _ID.size

    def __init__(self, below: Table, *, writable: bool) -> None:
        self.rows = below.rows
        self._below = below
        self._writable = writable

    def segments(self) -> list[Segment]:
        """Return the segments that contain rows. This makes one seek per segment."""
        found: list[Segment] = []
        lo: bytes | None = b""
        while lo is not None and (row := self._below.first(lo)) is not None:
            segment = self.segment(split_id(row[0])[0])
            found.append(segment)
            lo = None if segment.id == _LAST_ID else _ID.pack(segment.id + 1)
        return found

    def segment(self, number: int) -> Segment:
        """Return the segment with this id, even if it contains no rows."""
        return _PrefixedSegment(number, self._below)

    def write(self, groups: dict[Segment, list[Write]]) -> None:
        """Write rows of several segments. If a row is refused, no row is written."""
        self._below.write(
            Write(_ID.pack(segment.id) + key, value, context)
            for segment, writes in groups.items()
            for key, value, context in writes
        )

    def expire(self, first_live: int) -> None:
        """Stage the deletion of the segments before ``first_live`` for the next commit."""
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
    """Split a stored key into the segment id and the key within the segment.

    Raises
    ------
    InconsistentStateError
        The key does not begin with a segment id.
    """
    number: int = _ID.unpack_from(key)[0] if len(key) >= _ID.size else -1
    if number < 0:
        raise InconsistentStateError(
            f"the stored key {key!r} does not begin with a segment id, so the store is neither a "
            "window store nor a session store. Open the store with the spec that it was written "
            "with"
        )
    return number, key[_ID.size :]

"""The segments of a window or session store, as far as they can be seen without opening it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kstore_core.cli.output.advice import adapted
from kstore_core.clock import segment_id
from kstore_core.engine import Database
from kstore_core.errors import FormatError
from kstore_core.keys import KeySchema
from kstore_core.spec import StoredSpec
from kstore_core.tables import OFFSETS, NamespaceTable
from kstore_core.tables.segments import PrefixedSegments
from kstore_core.tables.segments.names import is_dated
from kstore_core.tables.staging import StagedNamespace, Staging

__all__ = ["SegmentOverview", "documents", "shared_segments"]


@dataclass(frozen=True, slots=True)
class SegmentOverview:
    """A segment.

    Attributes
    ----------
    start : int
        When it begins, ms.
    rows : int
        About how many rows it has.
    name : str
        Of its database; empty where it has none of its own.
    first, last : bytes or None
        The first and the last key in its database; None where it holds no row, or has none of its
        own.
    damage : str or None
        Why its database cannot be read.
    """

    start: int
    rows: int
    name: str = ""
    first: bytes | None = None
    last: bytes | None = None
    damage: str | None = None

    def lies_at(self, interval_ms: int, store: str) -> bool:
        """Whether a segment of this width can begin where this one does."""
        return self.start % interval_ms == 0 or is_dated(store, self.name)

    def holds(self, schema: KeySchema, interval_ms: int) -> bool:
        """Whether its first row, read by this schema, is of its time."""
        try:
            time = self.start if self.first is None else schema.segment_time(self.first)
        except FormatError:
            return False
        return segment_id(time, interval_ms) == segment_id(self.start, interval_ms)


def shared_segments(database: Database, interval_ms: int) -> tuple[SegmentOverview, ...]:
    """Those that lie in one database, by a count of its rows.

    Raises
    ------
    InconsistentStateError
        A row is in no segment.
    """
    rows: dict[int, int] = {}
    for name in database.namespaces():
        if name == OFFSETS:
            continue
        with closing(StagedNamespace(Staging(0), database, name, False)) as namespace:
            for segment in PrefixedSegments(NamespaceTable(namespace), writable=False).segments():
                rows[segment.id] = rows.get(segment.id, 0) + segment.open().approximate_count()
    return tuple(SegmentOverview(number * interval_ms, rows[number]) for number in sorted(rows))


def documents(
    segments: tuple[SegmentOverview, ...], spec: StoredSpec | None, stream_time: int | None
) -> list[dict[str, Any]]:
    """What is known of each segment; where the store says nothing of itself, when it begins."""
    interval = None if spec is None else spec.segment_interval_ms
    retention = None if spec is None else spec.retention_ms
    found = []
    for segment in segments:
        row: dict[str, Any] = dict.fromkeys(("id", "start", "end", "rows", "expired"))
        row |= {"start": segment.start, "rows": None if segment.damage else segment.rows}
        if interval is not None:
            row["id"] = segment_id(segment.start, interval)
            row["end"] = segment.start + interval
            if retention is not None and stream_time is not None:
                row["expired"] = row["id"] < segment_id(stream_time - retention, interval)
        row["damage"] = segment.damage and adapted(segment.damage)
        found.append(row)
    return found

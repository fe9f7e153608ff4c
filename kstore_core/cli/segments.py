"""The facts about segments of a window or session store that can be read without its spec."""

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
    """The facts about one segment.

    Attributes
    ----------
    start : int
        The start of the segment, in ms since the epoch.
    rows : int
        The approximate number of rows.
    name : str
        The name of the segment's database; empty if the segments share a database.
    first, last : bytes or None
        The first and the last key in the segment; None if unknown or if the segment is empty.
    damage : str or None
        The reason why the segment's database cannot be read; None if it can be read.
    """

    start: int
    rows: int
    name: str = ""
    first: bytes | None = None
    last: bytes | None = None
    damage: str | None = None

    def lies_at(self, interval_ms: int, store: str) -> bool:
        """Return True if a segment of the width ``interval_ms`` can begin at this segment's start.

        Return True for a segment whose name has a date, as in old versions of Kafka Streams.
        """
        return self.start % interval_ms == 0 or is_dated(store, self.name)

    def holds(self, schema: KeySchema, interval_ms: int) -> bool:
        """Return True if the time in the segment's first key lies within the segment.

        ``schema`` decodes the key.
        """
        try:
            time = self.start if self.first is None else schema.segment_time(self.first)
        except FormatError:
            return False
        return segment_id(time, interval_ms) == segment_id(self.start, interval_ms)


def shared_segments(database: Database, interval_ms: int) -> tuple[SegmentOverview, ...]:
    """Return the segments that share one database, with the approximate number of their rows.

    Raises
    ------
    InconsistentStateError
        A row belongs to no segment.
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
    """Return a JSON document for each segment.

    Without the spec of the store, the id and the end of a segment are unknown. Without the spec or
    the stream time, the expiry is unknown.
    """
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

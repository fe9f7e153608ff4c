"""A versioned store as dicts, with the put that keeps them (docs/formats.md, Versioned rows)."""

from __future__ import annotations

import struct

from tests.reference.segment_rows import SegmentRow

LATEST = -1
NOT_PUT = -(2**63)


class VersionedRows:
    """The rows of a versioned store, changed by one put at a time, in any order of time."""

    def __init__(self, retention_ms: int, segment_interval_ms: int) -> None:
        self.retention_ms = retention_ms
        self.segment_interval_ms = segment_interval_ms
        self.stream_time = -1
        self.latest: dict[bytes, tuple[int, bytes]] = {}
        self.segments: dict[int, dict[bytes, SegmentRow]] = {}

    def segment_of(self, timestamp: int) -> int:
        size = abs(timestamp) // self.segment_interval_ms
        return size if timestamp >= 0 else -size

    @property
    def first_live(self) -> int:
        return self.segment_of(self.stream_time - self.retention_ms)

    def live(self, segment: int) -> dict[bytes, SegmentRow] | None:
        return None if segment < self.first_live else self.segments.setdefault(segment, {})

    def put(self, key: bytes, timestamp: int, value: bytes | None) -> int:
        if timestamp < self.stream_time - self.retention_ms:
            return NOT_PUT
        self.stream_time = max(self.stream_time, timestamp)
        for segment in [segment for segment in self.segments if segment < self.first_live]:
            del self.segments[segment]
        found = None
        if key in self.latest:
            found = self.latest[key][0]
            if timestamp >= found:
                return self._put_newest(key, timestamp, value)
        own = self.segment_of(timestamp)
        for segment in sorted(self.segments, reverse=True):
            row = self.segments[segment].get(key)
            if segment < own or row is None:
                continue
            if row.end <= timestamp:
                break
            if row.start <= timestamp:
                return self._put_inside(key, timestamp, value, segment, row)
            found = row.start
        if found is None:
            if value is None:
                return LATEST if self._delete_nothing(key, timestamp) else NOT_PUT
            self.latest[key] = timestamp, value
            return LATEST
        return self._put_before(key, timestamp, value, found)

    def _put_newest(self, key: bytes, timestamp: int, value: bytes | None) -> int:
        since, old = self.latest[key]
        if timestamp > since:
            self._keep(key, since, timestamp, old)
        elif value is None:  # a delete at the very time of the version
            self._delete_nothing(key, timestamp)
        if value is None:
            del self.latest[key]
        else:
            self.latest[key] = timestamp, value
        return LATEST

    def _keep(self, key: bytes, since: int, until: int, value: bytes | None) -> None:
        rows = self.live(self.segment_of(until))
        if rows is None:
            return
        if key in rows:
            rows[key].insert_as_latest(since, until, value)
        else:
            rows[key] = SegmentRow(until, [(since, value)])

    def _delete_nothing(self, key: bytes, timestamp: int) -> bool:
        rows = self.live(self.segment_of(timestamp))
        if rows is None:
            return False
        if key not in rows:
            rows[key] = SegmentRow(timestamp, [(timestamp, None)])
        elif rows[key].end != timestamp:
            rows[key].insert_as_latest(rows[key].end, timestamp, None)
        return True

    def _put_inside(
        self, key: bytes, timestamp: int, value: bytes | None, segment: int, row: SegmentRow
    ) -> int:
        index, start, end, old = row.find(timestamp)
        if start == timestamp:
            row.update(timestamp, value, index)
        elif self.segment_of(timestamp) != segment:
            self._keep(key, start, timestamp, old)
            row.update(timestamp, value, index)
        else:
            row.insert(timestamp, value, index)
        return end

    def _put_before(self, key: bytes, timestamp: int, value: bytes | None, newer: int) -> int:
        rows = self.live(self.segment_of(newer))
        if rows is None:
            return NOT_PUT
        if key not in rows:
            rows[key] = SegmentRow(newer, [(timestamp, value)])
        elif rows[key].end <= timestamp:
            rows[key].insert_as_latest(timestamp, newer, value)
        else:
            rows[key].insert_as_earliest(timestamp, value)
        return newer

    def rows(self) -> list[tuple[bytes, bytes]]:
        """Every row, in the order of its key's bytes."""
        rows = [
            (struct.pack(">q", segment) + key, row.encode())
            for segment, by_key in self.segments.items()
            for key, row in by_key.items()
        ]
        rows += [
            (struct.pack(">q", LATEST) + key, struct.pack(">q", timestamp) + value)
            for key, (timestamp, value) in self.latest.items()
        ]
        return sorted(rows)

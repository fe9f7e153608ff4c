"""A segment row as a list of versions, with every operation on the list."""

from __future__ import annotations

import struct
from dataclasses import dataclass

Version = tuple[int, bytes | None]


@dataclass
class SegmentRow:
    """The versions of a key whose validity ended in one segment.

    ``versions`` is newest first; a version ends where the one before it starts, the newest at
    ``end``. A degenerate row is one tombstone that starts at ``end``.
    """

    end: int
    versions: list[Version]

    @property
    def start(self) -> int:
        return self.versions[-1][0]

    @property
    def degenerate(self) -> bool:
        return self.start == self.end

    def encode(self) -> bytes:
        out = struct.pack(">qq", self.end, self.start)
        for timestamp, value in self.versions:
            out += struct.pack(">qi", timestamp, -1 if value is None else len(value))
        for _, value in reversed(self.versions):
            out += value or b""
        return out

    def entries(self) -> list[tuple[int, int, bytes | None]]:
        ends = [self.end, *(timestamp for timestamp, _ in self.versions)]
        return [(start, end, value) for (start, value), end in zip(self.versions, ends)]  # noqa: B905

    def find(self, timestamp: int) -> tuple[int, int, int, bytes | None]:
        for index, (start, end, value) in enumerate(self.entries()):
            if start <= timestamp < end:
                return index, start, end, value
        raise ValueError(timestamp)

    def find_all(self, low: int, high: int) -> list[tuple[int, int, bytes]]:
        return [
            (start, end, value)
            for start, end, value in self.entries()
            if value is not None and start <= high and end > low
        ]

    def truncate_to(self, timestamp: int) -> None:
        if timestamp <= self.start:
            self.versions = [(timestamp, None)]
        else:
            self.versions = [version for version in self.versions if version[0] < timestamp]
        self.end = timestamp

    def insert_as_latest(self, start: int, end: int, value: bytes | None) -> None:
        if start < self.end:
            self.truncate_to(start)
        if self.degenerate:
            self.versions = []
        if self.end < start:
            self.versions.insert(0, (self.end, None))
        self.versions.insert(0, (start, value))
        self.end = end

    def insert_as_earliest(self, timestamp: int, value: bytes | None) -> None:
        if self.degenerate:
            self.versions = []
        self.versions.append((timestamp, value))

    def insert(self, timestamp: int, value: bytes | None, index: int) -> None:
        self.versions.insert(index, (timestamp, value))

    def update(self, timestamp: int, value: bytes | None, index: int) -> None:
        self.versions[index] = (timestamp, value)

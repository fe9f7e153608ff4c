"""Changelogs in memory, which a test can read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kstore_core.changelog.topic import changelog_topic
from kstore_core.codec import RecordColumns
from kstore_core.engine import Durability
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from kstore_core.codec.headers.headers import _HeadersLike

__all__ = ["MemoryChangelog", "MemoryChangelogs"]


class MemoryChangelog:
    """A changelog in memory, of partition 0. It implements `kstore_core.changelog.Changelog`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partition = 0
        self.records = RecordColumns()
        self._pending = RecordColumns()

    @property
    def start_offset(self) -> int:
        return 0

    @property
    def high_watermark(self) -> int:
        return self.records.next_offset

    def append(
        self, key: bytes, value: bytes | None, timestamp: int, headers: _HeadersLike = None
    ) -> None:
        self._pending.append(self._pending.next_offset, timestamp, key, value, headers)

    def extend(self, records: RecordColumns) -> None:
        self._pending.extend(records, self._pending.next_offset)

    def commit(self) -> int:
        self.records.extend(self._pending, self.records.next_offset)
        self.discard()
        return self.records.next_offset

    def discard(self) -> None:
        self._pending = RecordColumns()

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        chosen = bytes(offset >= (from_offset or 0) for offset in self.records.offsets)
        if any(chosen):
            yield self.records.chosen(chosen)

    def close(self) -> None:
        self.discard()


class MemoryChangelogs:
    """The changelogs of a state directory, one for each store name.

    It implements `kstore_core.changelog.Changelogs`.
    """

    def __init__(self, application_id: str) -> None:
        self.application_id = application_id
        self.of_store: dict[str, MemoryChangelog] = {}

    def changelog_of(self, spec: StoreSpec, task: Path, durability: Durability) -> MemoryChangelog:
        """Open the changelog of a store. The first call for a store returns an empty changelog."""
        topic = changelog_topic(self.application_id, spec.name)
        return self.of_store.setdefault(spec.name, MemoryChangelog(topic))

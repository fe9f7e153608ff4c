"""The storage of a store whose segments have a database each: what it keeps of itself, and commits.

Rows of all segments cannot be written at once, so a commit has two phases: rows first, then what
vouches for them. The newest segment is written last and keeps the whole record of the store in the
batch that holds its rows; Kafka Streams, too, asks the newest one first.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import closing
from pathlib import Path

from kstore_core.clock import segment_id
from kstore_core.engine import Database, Engine, Rows
from kstore_core.offsets import (
    Entries,
    Partition,
    StoreRecord,
    commit_rows,
    merged_record,
    read_record,
)
from kstore_core.segments.child import Child
from kstore_core.segments.children import ChildSegments
from kstore_core.segments.names import starts
from kstore_core.segments.table import SegmentedTable
from kstore_core.spec import StoreSpec
from kstore_core.staging import StagedNamespace, take
from kstore_core.tables import OFFSETS, Table

__all__ = ["ChildStorage", "read_children"]

_LOOKED_AT = 8
"""How many segments are looked at, newest first, for a record that tells the store's spec."""


class ChildStorage:
    """Databases beside each other.

    Parameters
    ----------
    spec : StoreSpec
    segments : ChildSegments
    time_of : callable
        The time of a row (ms) by its key.
    """

    def __init__(
        self, spec: StoreSpec, segments: ChildSegments, time_of: Callable[[bytes], int]
    ) -> None:
        assert spec.segment_interval_ms is not None
        self._spec = spec
        self._segments = segments
        self._time_of = time_of
        self._interval = spec.segment_interval_ms
        self._stream_time: int | None = None
        self._vouched = False

    database: Database | None = None

    def read_record(self) -> StoreRecord:
        """What the newest segments say of the store.

        Stream time is at least when the newest segment begins: Kafka may have written to it, and
        does not store the time.
        """
        children = [child for _, child in sorted(self._segments.live.items(), reverse=True)]
        record = merged_record(_record_of(child.wake()) for child in children[:_LOOKED_AT])
        if record.stream_time is not None:
            record.stream_time = max(record.stream_time, children[0].id * self._interval)
        self._stream_time = record.stream_time
        self._vouched = record.spec is not None
        return record

    def open(self) -> Table:
        """The table of the rows; segments with names of older versions are given those of today.

        Raises
        ------
        InconsistentStateError
            Rows that this store cannot have there; nothing was changed.
        """
        self._segments.check_rows(vouched=self._vouched)
        self._segments.rename()
        return SegmentedTable(self._segments, self._time_of, self._interval)

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy the databases, which nobody writes to meanwhile."""
        self._segments.checkpoint(place)

    @property
    def expired(self) -> Sequence[Child]:
        """What a commit that begins now lets go of, once it is made."""
        return list(self._segments.expired)

    def drop(self, expired: Sequence[Child]) -> None:
        """Let go of it."""
        self._segments.drop(expired)

    def write(self, record: StoreRecord, entries: Entries) -> None:
        """Write what is staged, and then the record of the store with these entries.

        Parameters
        ----------
        record : StoreRecord
            As it was committed last.
        """
        with self._segments.lock:
            staged = self._take()
            if not (staged or entries or self._outlived()):
                return
            newest = self._newest(staged, entries)
            before, after = self._whole(record, Entries()), self._whole(record, entries)
            others = [child for child in staged if child is not newest]
            for child in others:
                self._sync_all_but(child)
                self._write(child, staged[child], None if child.exists else before)
            self._sync_all_but(newest)
            self._write(newest, staged.get(newest, []), after)
            if entries.forgets:
                others = [c for c in self._segments.live.values() if c.exists and c is not newest]
            else:  # a copy is not worth opening a database for, once more
                others = [child for child in others if child.database is not None]
            for child in others:
                self._sync_all_but(child)
                self._write(child, [], after)
            if entries.stream_time is not None:
                self._stream_time = entries.stream_time

    def _take(self) -> dict[Child, list[tuple[StagedNamespace, Rows]]]:
        """What is staged, by segment, all of it as of one moment."""
        places = [
            (child, namespace)
            for child in self._segments.live.values()
            for namespace in child.namespaces
        ]
        # The store's own has nothing, but tells whether it has been closed.
        _, *taken = take((self._segments.rows, *(namespace for _, namespace in places)))
        staged: dict[Child, list[tuple[StagedNamespace, Rows]]] = {}
        for (child, namespace), rows in zip(places, taken, strict=True):
            if rows:
                staged.setdefault(child, []).append((namespace, rows))
        return staged

    def _outlived(self) -> bool:
        """Whether all that says something of the store is about to be dropped."""
        there = any(child.exists for child in self._segments.live.values())
        return bool(self._segments.expired) and not there

    def _newest(self, staged: Container[Child], entries: Entries) -> Child:
        """The newest segment that there is, or that of stream time where there is none."""
        live = self._segments.live.items()
        there = [number for number, child in live if child.exists or child in staged]
        if there:
            return self._segments.segment(max(there))
        time = self._stream_time if entries.stream_time is None else entries.stream_time
        number = segment_id(max(0, time or 0), self._interval)
        return self._segments.segment(max(number, self._segments.first_live))

    def _write(
        self, child: Child, staged: list[tuple[StagedNamespace, Rows]], entries: Rows | None
    ) -> None:
        batch = {namespace.name: rows for namespace, rows in staged}
        if entries:
            batch[OFFSETS] = entries
        child.write(batch)
        for namespace, rows in staged:
            namespace.clear(rows)

    def _whole(self, record: StoreRecord, entries: Entries) -> Rows:
        """All that the store keeps of itself, with these entries."""
        time = self._stream_time if entries.stream_time is None else entries.stream_time
        offsets: dict[Partition, int | None] = dict(record.offsets)
        if entries.offsets is not None:
            offsets = {
                **(offsets if entries.offsets else dict.fromkeys(offsets)),
                **entries.offsets,
            }
        return commit_rows(
            record,
            offsets=offsets or None,
            position=record.position if entries.position is None else entries.position,
            stream_time=time,
            spec=self._spec,
            notes={**record.notes, **(entries.notes or {})},
        )

    def _sync_all_but(self, child: Child) -> None:
        """Where a crash may lose rows: none that offsets in ``child`` are about to vouch for."""
        for other in self._segments.live.values():
            if other is not child:
                other.sync()

    def discard(self) -> None:
        """Forget what is staged."""
        for child in list(self._segments.live.values()):
            for namespace in child.namespaces:
                namespace.clear()

    def close(self) -> None:
        """Let go of the databases; what a commit has let go of is dropped."""
        self._segments.close()


def read_children(engine: Engine, root: Path, store: str) -> StoreRecord:
    """What the segments of a store that is not open say of it."""
    newest = [*starts(store, engine.children(root, store), root / store)][::-1]
    return merged_record(_read_child(engine, root, store, name) for name in newest[:_LOOKED_AT])


def _read_child(engine: Engine, root: Path, store: str, name: str) -> StoreRecord:
    try:
        database = engine.open_child(root, store, name, read_only=True)
    except FileNotFoundError:  # it has been dropped meanwhile, or was never finished
        return StoreRecord()
    with closing(database):
        return _record_of(database)


def _record_of(database: Database | None) -> StoreRecord:
    if database is None or OFFSETS not in database.namespaces():
        return StoreRecord()
    return read_record(database.namespace(OFFSETS))

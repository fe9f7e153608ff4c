"""The storage of a store with one database for each segment: its record and its commits.

Rows of all segments cannot be written at once, so a commit has two phases: rows first, then the
record with their offsets. The newest segment is written last, with the whole record of the store in
the batch of its rows; Kafka Streams also reads the newest one first. Each batch carries the number
of its commit: see :mod:`kstore_core.tables.segments.progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from kstore_core.clock import segment_id
from kstore_core.engine import Database, Engine, Rows
from kstore_core.errors import InconsistentStateError, StoreClosedError
from kstore_core.offsets.entries import (
    COMMIT,
    SEGMENTS,
    Entries,
    Partition,
    StoreRecord,
    read_record,
    sorted_rows,
)
from kstore_core.spec import StoreSpec
from kstore_core.tables import OFFSETS, Table
from kstore_core.tables.segments.child import Child
from kstore_core.tables.segments.children import ChildSegments
from kstore_core.tables.segments.names import by_id, starts
from kstore_core.tables.segments.progress import (
    Expected,
    Progress,
    encode_segments,
    find_progress,
    with_record,
    without_record,
)
from kstore_core.tables.segments.table import SegmentedTable
from kstore_core.tables.staging import StagedNamespace, take

__all__ = ["ChildStorage", "read_children", "read_progress"]

_T = TypeVar("_T")

_MAX_READ = 8
"""The most segments that are read, newest first, to find a record with the store's spec."""

_ATTEMPTS = 4


class ChildStorage:
    """The storage of a store with one database for each segment.

    Parameters
    ----------
    spec : StoreSpec
    segments : ChildSegments
    time_of : callable
        The time of a row (ms) by its key.
    undo : callable, optional
        Removes the store, which has no segments yet, from the directory.
    """

    def __init__(
        self,
        spec: StoreSpec,
        segments: ChildSegments,
        time_of: Callable[[bytes], int],
        undo: Callable[[], object] | None = None,
    ) -> None:
        assert spec.segment_interval_ms is not None
        self._spec = spec
        self._segments = segments
        self._time_of = time_of
        self._undo = undo
        self._interval = spec.segment_interval_ms
        self._stream_time: int | None = None
        self._vouched = False
        self._number = 0
        self._segments_entry: bytes | None = None
        self._holder: Child | None = None

    database: Database | None = None

    def read_record(self) -> StoreRecord:
        """Return the store's record, read from the newest segments.

        Where a segment has lost the end of its write-ahead log, the offsets, the position and the
        stream time are those of the last commit that all segments have. Stream time is at least the
        start of the newest segment: Kafka may have written to it, and does not store the time.

        Raises
        ------
        InconsistentStateError
            A segment is missing, or has no entry of its commits.
        """
        progress = self._progress()
        record, live = progress.record, self._segments.live
        for number, expected in progress.segments.items():
            if number in live:
                live[number].commit, live[number].sealed = expected
        self._number = progress.number
        self._segments_entry = encode_segments(self._expected())
        if record.stream_time is not None:
            record.stream_time = max(record.stream_time, max(live) * self._interval)
        self._stream_time = record.stream_time
        self._vouched = record.spec is not None
        return record

    def _progress(self) -> Progress:
        segments = self._segments

        def found() -> Progress:
            names = {number: child.name for number, child in segments.live.items()}
            return find_progress(
                self._spec.name,
                segments.path,
                names,
                lambda number: _record_of(segments.live[number].wake(), self._spec.name),
                max_read=_MAX_READ,
            )

        return _again(found, segments.find) if segments.read_only else found()

    def open(self) -> Table:
        """Return the table of the rows. Segments with names of older versions are renamed.

        Raises
        ------
        InconsistentStateError
            A segment has rows that this store cannot have there; nothing was changed.
        """
        self._segments.check_rows(vouched=self._vouched)
        self._segments.rename()
        return SegmentedTable(self._segments, self._time_of, self._interval)

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy the databases, without writes meanwhile."""
        self._segments.checkpoint(place)

    @property
    def expired(self) -> Sequence[Child]:
        """The segments that the commit that begins now drops at its end."""
        return list(self._segments.expired)

    def drop(self, expired: Sequence[Child]) -> None:
        """Drop expired segments."""
        self._segments.drop(expired)

    def write(self, record: StoreRecord, entries: Entries, *, is_spill: bool = False) -> None:
        """Write the staged rows, and then the record of the store with these entries.

        Parameters
        ----------
        record : StoreRecord
            The record as of the last commit.
        is_spill : bool
            The rows of a segment may be written before its entries.
        """
        with self._segments.lock:
            staged = self._take()
            loaded = [child for child in self._segments.live.values() if child.loaded]
            dropped = any(child.exists for child in self._segments.expired)
            if not (staged or loaded or dropped or entries or self._outlived()):
                return
            newest = self._newest(staged, entries)
            newest.wake()  # reads its commit number
            others = [child for child in dict.fromkeys([*staged, *loaded]) if child is not newest]
            number = max(self._number, newest.commit, *(child.commit for child in others)) + 1
            after = self._whole(record, entries)
            commit = without_record(after, number) if others else None
            for child in others:
                self._sync_all_but(child)
                rows: dict[bytes, bytes | None] = {COMMIT: commit}
                if not child.exists:
                    rows |= self._whole(record, Entries()) | {SEGMENTS: self._segments_entry}
                self._write(child, staged.get(child, []), rows, number, is_spill=is_spill)
            self._sync_all_but(newest)
            segments = {**self._expected(), newest.id: Expected(number, sealed=False)}
            whole = with_record(after, number, segments)
            self._write(newest, staged.get(newest, []), whole, number, is_spill=is_spill)
            self._number, self._holder = number, newest
            self._segments_entry = whole[SEGMENTS]
            if entries.stream_time is not None:
                self._stream_time = entries.stream_time
            if entries.forgets:
                others = [c for c in self._segments.live.values() if c.exists and c is not newest]
            else:  # a database is not opened again for a copy of the record
                others = [child for child in others if child.database is not None]
            del whole[COMMIT]
            for child in others:
                self._sync_all_but(child)
                child.write({OFFSETS: sorted_rows(whole)})

    def _expected(self) -> dict[int, Expected]:
        """Return the progress of each segment, for the record."""
        return {
            number: Expected(child.commit, child.sealed)
            for number, child in self._segments.live.items()
            if child.exists
        }

    def _take(self) -> dict[Child, list[tuple[StagedNamespace, Rows]]]:
        """Return the staged rows by segment, all as of one point in time."""
        places = [
            (child, namespace)
            for child in self._segments.live.values()
            for namespace in child.namespaces
        ]
        # The store's own namespace is empty, but raises if the store has been closed.
        _, *taken = take((self._segments.rows, *(namespace for _, namespace in places)))
        staged: dict[Child, list[tuple[StagedNamespace, Rows]]] = {}
        for (child, namespace), rows in zip(places, taken, strict=True):
            if rows:
                staged.setdefault(child, []).append((namespace, rows))
        return staged

    def _outlived(self) -> bool:
        """Return True if every segment, and so the record, is about to be dropped."""
        present = any(child.exists for child in self._segments.live.values())
        return bool(self._segments.expired) and not present

    def _newest(self, staged: Container[Child], entries: Entries) -> Child:
        """Return the newest segment, or the segment of stream time if there is none."""
        live = self._segments.live.items()
        present = [number for number, child in live if child.exists or child in staged]
        if present:
            return self._segments.segment(max(present))
        time = self._stream_time if entries.stream_time is None else entries.stream_time
        number = segment_id(max(0, time or 0), self._interval)
        return self._segments.segment(max(number, self._segments.first_live))

    def _write(
        self,
        child: Child,
        staged: list[tuple[StagedNamespace, Rows]],
        entries: Mapping[bytes, bytes | None],
        number: int,
        *,
        is_spill: bool,
    ) -> None:
        first = not child.commit
        batch = {namespace.name: rows for namespace, rows in staged}
        if is_spill and not first and len(batch) == 1:  # rows need the record of their store
            ((name, rows),) = batch.items()
            if rows.is_large and child.write_large(name, rows):
                batch = {}
        batch[OFFSETS] = sorted_rows(entries)
        child.write(batch)
        child.commit, child.loaded = number, False
        for namespace, rows in staged:
            namespace.clear(rows)
        if first:  # a power cut may lose later commits, but must not lose this entry
            self._segments.sync(child)

    def _whole(self, record: StoreRecord, entries: Entries) -> dict[bytes, bytes | None]:
        """Return the whole record of the store, with these entries."""
        time = self._stream_time if entries.stream_time is None else entries.stream_time
        offsets: dict[Partition, int | None] = dict(record.offsets)
        if entries.offsets is not None:
            offsets = {
                **(offsets if entries.offsets else dict.fromkeys(offsets)),
                **entries.offsets,
            }
        rows = Entries(
            offsets=offsets or None,
            position=record.position if entries.position is None else entries.position,
            stream_time=time,
            spec=self._spec,
            notes={**record.notes, **(entries.notes or {})},
        ).rows(record)
        return dict(zip(rows.keys, rows.values, strict=True))

    def _sync_all_but(self, child: Child) -> None:
        """Sync the other segments, so that a crash loses no rows of the offsets in ``child``."""
        for other in self._segments.live.values():
            if other is not child:
                other.sync()

    def discard(self) -> None:
        """Discard the staged rows."""
        for child in list(self._segments.live.values()):
            for namespace in child.namespaces:
                namespace.clear()

    def close(self) -> None:
        """Close the databases, and drop expired segments whose commit is done."""
        try:
            self._seal()
        finally:
            self._segments.close()

    def _seal(self) -> None:
        """Record the clean close of the databases, so that the next open need not read them."""
        holder = self._holder
        if holder is None or not self._segments.is_own:
            return
        with self._segments.lock, suppress(StoreClosedError):
            others = [child for child in self._segments.live.values() if child is not holder]
            if all(child.sleep() for child in others if child.exists) and holder.wake():
                entry = encode_segments(self._expected())
                if entry != self._segments_entry:
                    holder.write({OFFSETS: Rows([SEGMENTS], [entry])})

    def abandon(self) -> None:
        """Close the database after a failed open; a new store leaves none."""
        self.close()
        if self._undo is not None:
            self._undo()


def read_children(engine: Engine, root: Path, store: str) -> StoreRecord:
    """Return the record that the segments of a closed store contain.

    Raises
    ------
    InconsistentStateError
        A segment is missing, or has no entry of its commits.
    """
    return read_progress(engine, root, store).record


def read_progress(
    engine: Engine, root: Path, store: str, *, all_segments: bool = False
) -> Progress:
    """Return the progress of the segments of a closed store.

    Parameters
    ----------
    all_segments : bool
        Read also those that were closed cleanly.

    Raises
    ------
    InconsistentStateError
        A segment is missing or has no entry of its commits, or one that was closed cleanly lacks
        commits.
    """
    return _again(lambda: _read_progress(engine, root, store, all_segments), lambda: None)


def _read_progress(engine: Engine, root: Path, store: str, all_segments: bool) -> Progress:
    begins = starts(store, engine.children(root, store), root / store)
    ordered = [*begins]
    records: dict[str, StoreRecord] = {}

    def read(name: str) -> StoreRecord:
        if name not in records:
            records[name] = _read_child(engine, root, store, name)
        return records[name]

    names = dict(enumerate(ordered))
    for name in ordered[::-1][:_MAX_READ]:
        spec = read(name).spec
        if spec is not None and spec.segment_interval_ms is not None:
            names = by_id(store, begins, root / store, spec.segment_interval_ms)
            break
    return find_progress(
        store,
        root / store,
        names,
        lambda number: read(names[number]),
        max_read=_MAX_READ,
        all_segments=all_segments,
    )


def _again(find: Callable[[], _T], prepare: Callable[[], object]) -> _T:
    """Read a store, and try again if its writer drops segments meanwhile."""
    for _ in range(_ATTEMPTS):
        try:
            return find()
        except InconsistentStateError:
            prepare()
    return find()


def _read_child(engine: Engine, root: Path, store: str, name: str) -> StoreRecord:
    try:
        database = engine.open_child(root, store, name, read_only=True)
    except FileNotFoundError:  # it has been dropped meanwhile, or was never finished
        return StoreRecord()
    with closing(database):
        return _record_of(database, store)


def _record_of(database: Database | None, store: str) -> StoreRecord:
    if database is None or OFFSETS not in database.namespaces():
        return StoreRecord()
    return read_record(database.namespace(OFFSETS), f"the store {store!r} in {database.path}")

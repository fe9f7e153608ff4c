"""The storage of a store that has a separate database for each segment.

The newest segment contains the record of the store. The record is the metadata of the store:
offsets, position, stream time and spec. Kafka Streams also looks for metadata in the newest segment
first. One batch cannot write to several databases. So a commit first writes the rows of the older
segments. Then the commit writes one batch with the rows of the newest segment and the record. Each
of these batches contains the number of the commit; see
:mod:`kstore_core.tables.segments.progress`. At last, the commit copies the record to the other
segments that it has changed.
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
"""The maximum number of segments, newest first, to search for metadata with a spec."""

_ATTEMPTS = 4


class ChildStorage:
    """The storage of a store that has a separate database for each segment.

    Parameters
    ----------
    spec : StoreSpec
    segments : ChildSegments
        The segments of the store.
    time_of : callable
        A function that takes the key of a row and returns the row's time in ms.
    undo : callable, optional
        A function that removes the store from the directory; None if the store existed before.
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
        """Read the metadata of the store from the newest segments, and return it.

        If a segment has lost the end of its write-ahead log, the offsets, position and stream time
        are those of the last commit that no segment lacks. A stored stream time is raised to at
        least the start of the newest segment. Kafka Streams may have written to this segment, and
        Kafka Streams does not store the stream time.

        Raises
        ------
        InconsistentStateError
            A segment is missing, or has no entry ``kstore.commit``.
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
        """Return the table of the rows.

        Segments with names of older versions of Kafka Streams are renamed.

        Raises
        ------
        InconsistentStateError
            The rows of a segment do not fit the spec. Nothing was changed.
        """
        self._segments.check_rows(vouched=self._vouched)
        self._segments.rename()
        return SegmentedTable(self._segments, self._time_of, self._interval)

    def checkpoint(self, place: Callable[[Path], Path]) -> None:
        """Copy each database to the path that ``place`` returns. The caller must block writes."""
        self._segments.checkpoint(place)

    @property
    def expired(self) -> Sequence[Child]:
        """The expired segments. A commit reads them before it writes, and drops them afterwards."""
        return list(self._segments.expired)

    def drop(self, expired: Sequence[Child]) -> None:
        """Drop expired segments. A commit calls this after its rows are written."""
        self._segments.drop(expired)

    def write(self, record: StoreRecord, entries: Entries, *, is_spill: bool = False) -> None:
        """Write the staged rows, and then the metadata of the store; see :meth:`Storage.write`."""
        with self._segments.lock:
            staged = self._take()
            loaded = [child for child in self._segments.live.values() if child.loaded]
            dropped = any(child.exists for child in self._segments.expired)
            if not (staged or loaded or dropped or entries or self._outlived()):
                return
            newest = self._newest(staged, entries)
            newest.wake()  # This sets newest.commit, which is used below.
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
            else:  # Do not open a closed database only to write a copy of the metadata.
                others = [child for child in others if child.database is not None]
            del whole[COMMIT]
            for child in others:
                self._sync_all_but(child)
                child.write({OFFSETS: sorted_rows(whole)})

    def _expected(self) -> dict[int, Expected]:
        """Return the last commit of each segment for the entry ``kstore.segments``."""
        return {
            number: Expected(child.commit, child.sealed)
            for number, child in self._segments.live.items()
            if child.exists
        }

    def _take(self) -> dict[Child, list[tuple[StagedNamespace, Rows]]]:
        """Return the staged rows of each segment, all as of one point in time."""
        places = [
            (child, namespace)
            for child in self._segments.live.values()
            for namespace in child.namespaces
        ]
        # The namespace of the store stages no rows. Taking it raises an error in a closed store.
        _, *taken = take((self._segments.rows, *(namespace for _, namespace in places)))
        staged: dict[Child, list[tuple[StagedNamespace, Rows]]] = {}
        for (child, namespace), rows in zip(places, taken, strict=True):
            if rows:
                staged.setdefault(child, []).append((namespace, rows))
        return staged

    def _outlived(self) -> bool:
        """Return True if all segments have expired, so that a drop deletes the metadata too."""
        present = any(child.exists for child in self._segments.live.values())
        return bool(self._segments.expired) and not present

    def _newest(self, staged: Container[Child], entries: Entries) -> Child:
        """Return the newest segment. If there is none, return the segment of stream time."""
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
        metadata = {OFFSETS: sorted_rows(entries)}
        if is_spill and len(batch) == 1:
            ((name, rows),) = batch.items()
            if rows.is_large:
                if first:  # Rows without the metadata of their store must not exist.
                    child.write(metadata)
                    self._segments.sync(child)
                if child.write_large(name, rows):
                    batch = {}
        child.write({**batch, **metadata})
        child.commit, child.loaded = number, False
        for namespace, rows in staged:
            namespace.clear(rows)
        if first:  # A power cut may lose later commits, but must not lose the entry kstore.commit.
            self._segments.sync(child)

    def _whole(self, record: StoreRecord, entries: Entries) -> dict[bytes, bytes | None]:
        """Return the whole metadata of the store: ``record`` with the changes in ``entries``."""
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
        """Sync all segments except ``child``.

        The commit writes offsets to ``child``. Without an earlier sync of the other segments, a
        crash could lose rows that these offsets cover.
        """
        for other in self._segments.live.values():
            if other is not child:
                other.sync()

    def discard(self) -> None:
        """Discard the staged rows."""
        for child in list(self._segments.live.values()):
            for namespace in child.namespaces:
                namespace.clear()

    def close(self) -> None:
        """Close the databases. Drop the expired segments that a commit left because of scans."""
        try:
            self._seal()
        finally:
            self._segments.close()

    def _seal(self) -> None:
        """Close the databases, and note in the metadata that each database was closed cleanly.

        The next open then need not read these databases.
        """
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
        """Close the databases after a failed open. If the open created the store, remove it."""
        self.close()
        if self._undo is not None:
            self._undo()


def read_children(engine: Engine, root: Path, store: str) -> StoreRecord:
    """Return the metadata that the segments of a closed store contain.

    Raises
    ------
    InconsistentStateError
        A segment is missing, or has no entry ``kstore.commit``.
    """
    return read_progress(engine, root, store).record


def read_progress(
    engine: Engine, root: Path, store: str, *, all_segments: bool = False
) -> Progress:
    """Return the last commit in each segment of a closed store, and the resulting offsets.

    Parameters
    ----------
    engine : Engine
    root : Path
        The state directory.
    store : str
        The name of the store.
    all_segments : bool
        If True, also read the segments that were closed cleanly.

    Raises
    ------
    InconsistentStateError
        A segment is missing or has no entry ``kstore.commit``, or a cleanly closed segment lacks
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
    """Call ``find``. If it fails, call ``prepare`` and try again, up to four times.

    A read may fail because the writer of the store drops segments at the same time.
    """
    for _ in range(_ATTEMPTS):
        try:
            return find()
        except InconsistentStateError:
            prepare()
    return find()


def _read_child(engine: Engine, root: Path, store: str, name: str) -> StoreRecord:
    try:
        database = engine.open_child(root, store, name, read_only=True)
    except FileNotFoundError:  # The writer has dropped the segment, or did not finish creating it.
        return StoreRecord()
    with closing(database):
        return _record_of(database, store)


def _record_of(database: Database | None, store: str) -> StoreRecord:
    if database is None or OFFSETS not in database.namespaces():
        return StoreRecord()
    return read_record(database.namespace(OFFSETS), f"the store {store!r} in {database.path}")

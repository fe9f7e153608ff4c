"""The code that writes the staged rows and the metadata of one open store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kstore_core.changelog.files.directory import is_topic_of
from kstore_core.changelog.marks import Commit
from kstore_core.layers.logged import Journal
from kstore_core.offsets.entries import UNKNOWN, Entries, Partition
from kstore_core.offsets.position import copy_position, merge_positions
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.system.interrupts import uninterrupted
from kstore_core.tables.databases import Storage
from kstore_core.typed.store import StoreContext

__all__ = ["StoreCommits"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class StoreCommits:
    """The writer of a store's staged rows. Commits, spills and restores use it.

    Attributes
    ----------
    journal : Journal or None
        The changes to send to the store's changelog; None if the store has no changelog.
    restored_from : set of Partition
        The changelogs from which the store was restored.
    """

    def __init__(
        self, spec: StoreSpec, storage: Storage, context: StoreContext, clock: StreamClock | None
    ) -> None:
        self.journal: Journal | None = None
        self.restored_from: set[Partition] = set()
        self._spec = spec
        self._storage = storage
        self._context = context
        self._clock = clock
        self._written_stream_time = self._stream_time
        stored = context.record.spec
        self._spec_is_stored = stored is not None and stored.describes(spec)

    @property
    def _stream_time(self) -> int | None:
        return None if self._clock is None else self._clock.observed

    def advance(self, stream_time: int) -> None:
        """Advance the store's stream time. Do nothing if the store is a key-value store."""
        if self._clock is not None:
            with self._clock.turn:
                self._clock.advance(stream_time)

    def commit(
        self,
        offsets: Mapping[Partition, int | None] | None,
        notes: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Write the staged rows and the metadata, and then remove expired segments."""
        context = self._context
        # Reset the flag before the rows are taken. A concurrent put sets it for the next commit.
        moved, context.moved = context.moved, False
        expired = self._storage.expired
        position = copy_position(context.position)
        try:
            if self.journal is not None:
                mark = self.mark(offsets, position, notes)
                offsets = self._with_changelog(self.journal, offsets, mark)
            # Like Kafka, write a position with the first commit, even if the position is empty.
            is_first = context.record.position is None
            self._write(offsets, position if moved or is_first else None, notes)
        except BaseException:
            context.moved = moved
            raise
        context.record.position = position
        self._storage.drop(expired)

    def send(self, offsets: Mapping[Partition, int | None] | None) -> None:
        """Send to the changelog the records that a commit of these offsets would send."""
        if self.journal is not None:
            self.journal.send(self.mark(offsets, copy_position(self._context.position), None))

    def commit_restored(
        self,
        where: Partition,
        offset: int,
        position: Mapping[str, Mapping[int, int]],
        commit: Commit | None,
    ) -> None:
        """Commit a restored batch and its last ``offset`` in the changelog ``where``."""
        context = self._context
        with uninterrupted():
            offsets: dict[Partition, int | None] = {}
            notes: dict[str, bytes | None] = {}
            merge_positions(context.position, position)
            if commit is not None:
                merge_positions(context.position, commit.position)
                offsets = {**dict.fromkeys(self.inputs()), **commit.offsets}
                notes = {**dict.fromkeys(context.record.notes), **commit.notes}
                if commit.stream_time is not None:
                    self.advance(commit.stream_time)
            moved = bool(position) or (commit is not None and bool(commit.position))
            context.moved = context.moved or moved
            self.commit({**offsets, where: offset}, notes or None)

    def spill(self) -> None:
        """Write the staged rows before their commit, and also the store's spec and stream time.

        The changes are first sent to the changelog, so that the changelog never lacks stored rows.
        """
        if self._context.cache is not None:
            self._context.cache.flush()
        with uninterrupted():
            offsets = None
            if self.journal is not None:
                offsets = self._with_changelog(self.journal, None, None)
            self._write(offsets, None, is_spill=True)

    def mark(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: dict[str, dict[int, int]],
        notes: Mapping[str, bytes | None] | None,
    ) -> Commit:
        """Return the marker that a commit of these offsets and notes writes to the changelog."""
        all_notes = dict(self._context.record.notes)
        _change(all_notes, notes or {})
        return Commit(self.inputs(offsets), position, self._stream_time, all_notes)

    def inputs(self, changed: Mapping[Partition, int | None] | None = None) -> dict[Partition, int]:
        """Return the input offsets with ``changed`` applied, without the store's changelogs."""
        known = self._context.record.known_offsets
        if changed is not None:
            _apply(known, changed)
        return {
            at: offset
            for at, offset in known.items()
            if offset != UNKNOWN
            and at not in self.restored_from
            and not is_topic_of(at[0], self._spec.name)
        }

    def _write(
        self,
        offsets: Mapping[Partition, int | None] | None,
        position: Mapping[str, Mapping[int, int]] | None,
        notes: Mapping[str, bytes | None] | None = None,
        *,
        is_spill: bool = False,
    ) -> None:
        observed = self._stream_time
        record = self._context.record
        entries = Entries(
            offsets=offsets,
            position=position,
            stream_time=None if observed == self._written_stream_time else observed,
            spec=None if self._spec_is_stored else self._spec,
            notes=notes,
        )
        self._storage.write(record, entries, is_spill=is_spill)
        if not self._spec_is_stored:
            record.spec = StoredSpec.of(self._spec)
            self._spec_is_stored = True
        self._written_stream_time = observed
        if offsets is not None:
            _apply(record.offsets, offsets)
        _change(record.notes, notes or {})

    def _with_changelog(
        self,
        journal: Journal,
        offsets: Mapping[Partition, int | None] | None,
        commit: Commit | None,
    ) -> Mapping[Partition, int | None] | None:
        """Send all changes to the changelog, and add its last offset to ``offsets``."""
        next_offset = journal.send(commit)
        where = (journal.log.topic, journal.log.partition)
        known = self._context.record.offsets
        if next_offset == 0 or (offsets is None and known.get(where) == next_offset - 1):
            return offsets
        # None keeps known offsets; an empty mapping would remove them.
        others = dict.fromkeys(known) if offsets == {} else offsets or {}
        return {**others, where: next_offset - 1}


def _apply(known: dict[Partition, int], offsets: Mapping[Partition, int | None]) -> None:
    if not offsets:
        known.clear()
    _change(known, offsets)


def _change(known: dict[_Key, _Value], changes: Mapping[_Key, _Value | None]) -> None:
    """Set each changed key of a dict, or remove the key if its new value is None."""
    for key, value in changes.items():
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value

"""Reads of the names and the metadata of the stores in a state directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import (
    ForkedHandleError,
    StateError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.offsets.entries import Partition, StoreRecord, common_offsets, read_record
from kstore_core.spec import StoredSpec, check_name, is_name
from kstore_core.state.migration_note import check_not_moving, moving
from kstore_core.state.open_store import OpenStore
from kstore_core.system.handle import Handle
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.databases import read_children

__all__ = ["StateContents", "read_store", "store_names"]


def store_names(engine: Engine, root: Path, opened: Iterable[str]) -> list[str]:
    """Return the sorted names of the open stores and of the stores on disk.

    The result includes the stores that a migration is replacing now.
    """
    found = {*engine.stores(root), *engine.parents(root)}
    return sorted({*opened, *moving(root), *filter(is_name, found)})


def read_store(engine: Engine, root: Path, name: str, opened: Iterable[str]) -> StoreRecord:
    """Return the metadata of a store on disk.

    Raises
    ------
    SpecError
        ``name`` is not a valid name of a store.
    StateError
        The directory has no store of this name.
    InconsistentStateError
        A migration was interrupted while it replaced the store.
    """
    check_name(name)
    check_not_moving(root, name)
    if name in engine.parents(root):
        return read_children(engine, root, name)
    if name not in engine.stores(root):
        there = ", ".join(store_names(engine, root, opened))
        raise StateError(f"{root} has no store {name!r}; it has: {there or 'none'}")
    with closing(engine.open(root, name, read_only=True)) as database:
        if OFFSETS not in database.namespaces():
            return StoreRecord()
        return read_record(database.namespace(OFFSETS), f"the store {name!r} in {database.path}")


class StateContents(Handle):
    """A handle on a state directory that reads the metadata of the directory's stores."""

    path: Path
    engine: Engine
    read_only: bool
    _stores: dict[str, OpenStore]
    _instead = "the path of the state directory and the specs of the stores"

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the state directory {self.path} has been closed")
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"the state directory {self.path} was opened in process {self._pid}, but is used "
                f"in process {os.getpid()}, a forked child. Open the state directory in the "
                "process that uses it"
            )

    def _check_writable(self) -> None:
        if self.read_only:
            raise UnsupportedError(
                f"{self.path} cannot be written, because it was opened with read_only=True"
            )

    @property
    def opened(self) -> list[str]:
        """The sorted names of the open stores. A commit writes the rows of these stores."""
        self._check()
        return sorted(self._stores)

    def stores(self) -> list[str]:
        """Return the sorted names of the open stores and of the stores on disk."""
        self._check()
        return store_names(self.engine, self.path, self._stores)

    def stored_spec(self, name: str) -> StoredSpec | None:
        """Return the stored spec of a store, or None if the store is new or Kafka Streams wrote it.

        Raises
        ------
        StateError
            There is no such store.
        """
        return self._record_of(name).spec

    def offsets(self, name: str | None = None) -> dict[Partition, int]:
        """Return the last committed offset of each partition.

        If ``name`` is given, the result contains the offsets of this store. Without ``name``, the
        result contains the smallest offset that any store has committed for each partition. The
        result omits a partition for which a store has no offset. But the partition of a store's
        changelog needs an offset in this store only. The result is empty if any store has no
        offsets at all.
        """
        self._check()
        if name is not None:
            return self._record_of(name).known_offsets
        return common_offsets({store: self._record_of(store) for store in self.stores()})

    def notes(self, name: str) -> dict[str, bytes]:
        """Return the notes that commits have stored in a store.

        Raises
        ------
        StateError
            There is no such store.
        """
        return dict(self._record_of(name).notes)

    def _record_of(self, name: str) -> StoreRecord:
        self._check()
        if name in self._stores:
            return self._stores[name].context.record
        return read_store(self.engine, self.path, name, self._stores)

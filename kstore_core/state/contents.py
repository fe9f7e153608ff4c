"""Access to the names and the metadata of a state directory's stores, open or on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import ForkedHandleError, StateError, StoreClosedError
from kstore_core.offsets.entries import Partition, StoreRecord, common_offsets, read_record
from kstore_core.spec import StoredSpec, check_name, is_name
from kstore_core.state.migration_note import check_not_moving, moving
from kstore_core.state.open_store import OpenStore
from kstore_core.system.handle import Handle
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.databases import read_children

__all__ = ["StateContents", "read_store", "store_names"]


def store_names(engine: Engine, root: Path, opened: Iterable[str]) -> list[str]:
    """Return the names of the stores on disk and of the open stores, sorted.

    A store that a migration is replacing counts as on disk.
    """
    found = {*engine.stores(root), *engine.parents(root)}
    return sorted({*opened, *moving(root), *filter(is_name, found)})


def read_store(engine: Engine, root: Path, name: str, opened: Iterable[str]) -> StoreRecord:
    """Return the stored record of a store on disk.

    Raises
    ------
    SpecError
        The name is not valid for a store.
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
    _stores: dict[str, OpenStore]
    _instead = "its path, and the specs of its stores"

    def _check(self) -> None:
        if not self._open:
            raise StoreClosedError(f"the state directory {self.path} has been closed")
        if os.getpid() != self._pid:
            raise ForkedHandleError(
                f"{self.path} was opened by process {self._pid} and is used in {os.getpid()}, a "
                "fork of it; open the state directory in the process that uses it"
            )

    @property
    def opened(self) -> list[str]:
        """The names of the open stores, sorted. A commit writes the rows of these stores."""
        self._check()
        return sorted(self._stores)

    def stores(self) -> list[str]:
        """Return the names of the stores on disk and of the open stores, sorted."""
        self._check()
        return store_names(self.engine, self.path, self._stores)

    def stored_spec(self, name: str) -> StoredSpec | None:
        """Return the stored spec of a store; None if Kafka Streams wrote it or it is new.

        Raises
        ------
        StateError
            There is no such store.
        """
        return self._record_of(name).spec

    def offsets(self, name: str | None = None) -> dict[Partition, int]:
        """Return the last committed offset of each partition whose records the stores contain.

        If a name is given, the result has the offsets of that store. Otherwise it has the least
        offset of each partition over all stores. A partition is then left out if a store has no
        offset of it, except that a store's changelog counts for this store only. The result is
        empty if a store has no offsets.
        """
        self._check()
        if name is not None:
            return self._record_of(name).known_offsets
        return common_offsets({store: self._record_of(store) for store in self.stores()})

    def notes(self, name: str) -> dict[str, bytes]:
        """Return the notes of a store's last commits.

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

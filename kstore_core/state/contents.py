"""The records of stores that are not open, read from a state directory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import StateError
from kstore_core.offsets.entries import StoreRecord, read_record
from kstore_core.spec import check_name, is_name
from kstore_core.state.migration_note import check_not_moving, moving
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.databases import read_children

__all__ = ["read_store", "store_names"]


def store_names(engine: Engine, root: Path, opened: Iterable[str]) -> list[str]:
    """The names of the stores that are on disk, and of those that are open, sorted.

    One that is just being put in place is on disk, wherever it is.
    """
    found = {*engine.stores(root), *engine.parents(root)}
    return sorted({*opened, *moving(root), *filter(is_name, found)})


def read_store(engine: Engine, root: Path, name: str, opened: Iterable[str]) -> StoreRecord:
    """The stored record of a store on disk.

    Raises
    ------
    SpecError
        Such a name is no store's.
    StateError
        There is no such store, or it is just being put in place.
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

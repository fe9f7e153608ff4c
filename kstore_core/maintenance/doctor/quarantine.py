"""The quarantine of a damaged store, after which the store can be restored.

The quarantine renames the store's directory and deletes nothing.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core.engine import Engine
from kstore_core.errors import EngineLockedError, StateError, UnsupportedError
from kstore_core.maintenance.doctor.environment import files_of
from kstore_core.maintenance.doctor.holders import holders
from kstore_core.maintenance.doctor.store_checks import surveys
from kstore_core.spec import StoredSpec, check_name
from kstore_core.state import open_state
from kstore_core.state.migration_note import check_not_moving
from kstore_core.system.directories import sync_directory
from kstore_core.system.lock import DirectoryLock, recorded_engine

__all__ = ["SetAside", "set_aside"]

_MAKING = ".kstore-set-aside~"
"""The name of an unfinished target directory. No store can have this name."""


class SetAside(NamedTuple):
    """A quarantined store.

    Attributes
    ----------
    store : str
    path : Path
        The new state directory, which has the unchanged files of the store.
    spec : StoredSpec or None
        The stored spec, if it can still be read.
    """

    store: str
    path: Path
    spec: StoredSpec | None


def set_aside(
    path: str | os.PathLike[str],
    store: str,
    *,
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
) -> SetAside:
    """Move the files of a store into a new state directory, ``<path>/<store>.set-aside-<n>/``.

    The files are renamed, not copied. Afterwards the state directory ``path`` does not have the
    store, so the store can be restored there.

    Parameters
    ----------
    path : path-like
        The state directory.
    store : str
    engine, options
        The arguments of :func:`kstore_core.open_state`.

    Raises
    ------
    EngineLockedError
        A process has locked the state directory or a file of the store.
    StateError
        The state directory or the store does not exist.
    UnsupportedError
        The engine does not keep the store in a separate directory.
    InconsistentStateError
        A migration of the store was interrupted and is unfinished.
    """
    check_name(store)
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        root, made = state.path, state.engine
    files = files_of(made, root, store)
    if files is None:
        known = [*made.stores(root), *made.parents(root)]
        if store in known:
            raise UnsupportedError(
                f"the engine {made.name!r} does not keep the store {store!r} in a separate "
                f"directory in {root}, so the store cannot be set aside by renaming a directory"
            )
        raise StateError(f"{root} has no store {store!r}; it has: {', '.join(known) or 'none'}")
    check_not_moving(root, store)
    ((_, survey, _),) = surveys(made, root, [store])
    recorded = recorded_engine(root)
    lock = DirectoryLock(root, made.name)
    try:
        held = holders(file for file in files.rglob("*") if file.is_file())
        if held:
            raise EngineLockedError(
                f"{held[0].file} is locked by {held[0]}, so the store {store!r} cannot be set "
                "aside. First close the store in that process",
                pid=held[0].pid or None,
            )
        target = _free(root, store)
        moved = target / files.relative_to(root)
        _make(target, recorded or made.name)
        moved.parent.mkdir(parents=True, exist_ok=True)
        files.rename(moved)
        for folder in (moved.parent, target, files.parent, root):
            sync_directory(folder)
    finally:
        lock.release()
    return SetAside(store, target, None if survey is None else survey.record.spec)


def _make(target: Path, engine: str) -> None:
    """Make a state directory with a lock file. The lock file names the engine.

    Without a lock file kstore would take the directory for a new state directory.
    """
    making = target.with_name(_MAKING)
    making.mkdir(exist_ok=True)
    DirectoryLock(making, engine).release()
    making.rename(target)


def _free(root: Path, store: str) -> Path:
    """Return the path ``<store>.set-aside-<n>`` with the lowest unused number."""
    for number in itertools.count(1):
        target = root / f"{store}.set-aside-{number}"
        if not os.path.lexists(target):
            return target
    raise AssertionError

"""The replacement of old stores by new stores, by renaming their directories.

The replacement can be interrupted after each rename.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import StateError, UnsupportedError
from kstore_core.maintenance.finish_upgrade.finishing import databases
from kstore_core.state.migration_note import Move, Plan, places
from kstore_core.system.directories import sync_directory
from kstore_core.system.lock import DirectoryLock

__all__ = ["clean", "discard", "moves", "set_aside", "swap"]


def _folder_of(engine: Engine, root: Path, store: str) -> str:
    """Return the folder that contains all files of a store, relative to ``root``.

    Raises
    ------
    UnsupportedError
        No folder in ``root`` contains the files of this store and of no other store.
    """
    in_segments = store in engine.parents(root)
    openers = databases(engine, root, store, None)
    if openers:
        database = openers[0](read_only=True)
        path = database.path
        database.close()
        folder = path.parent if in_segments else path
    else:  # a store without segments
        folder = root / store
    if not folder.is_dir() or folder == root or root not in folder.parents:
        raise UnsupportedError(
            f"the engine {engine.name!r} does not keep the store {store!r} in a separate folder in "
            f"{root}, but in {folder}, so the store cannot be moved"
        )
    return str(folder.relative_to(root))


def swap(
    root: Path, plan: Plan, lock: DirectoryLock, callback: Callable[[str, str], object]
) -> None:
    """Move the old stores away, rename the new stores to their places, and delete the plan.

    Parameters
    ----------
    callback : callable
        A function that is called before each step with the name of the step and of the store.

    Raises
    ------
    StateError
        The target path of a rename exists already.
    """
    at = places(root)
    for store, before, after in plan.moves:
        new, old, aside = at.new / after, root / before, at.old / store / before
        if not new.exists():
            continue  # an interrupted run has renamed the store already
        if old.exists():
            callback("set aside", store)
            _rename(old, aside, root)
            # The lock writes a lock file that names the engine of the old store.
            DirectoryLock(at.old / store, plan.before).release()
        callback("put in place", store)
        _rename(new, root / after, root)
    if plan.before != plan.after:
        callback("record", plan.stores[0])
        lock.record(plan.after)
        for move in plan.moves:
            with suppress(OSError):  # the folder is not empty
                (root / move.before).parent.rmdir()
    callback("finish", plan.stores[0])
    at.plan.unlink()
    sync_directory(at.home)
    clean(root)


def _rename(path: Path, target: Path, root: Path) -> None:
    if target.exists():
        raise StateError(
            f"{path} cannot be renamed to {target}, because a program has made {target} since the "
            f"migration began. Move {target} away, and run kstore migrate again"
        )
    made = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    for folder in {path.parent, target.parent, *(folder.parent for folder in made)}:
        if folder.is_relative_to(root):
            sync_directory(folder)


def set_aside(root: Path, store: str) -> Path | None:
    """Return the state directory that contains the old store; None if no old store is left."""
    aside = places(root).old / store
    return aside if aside.is_dir() else None


def discard(root: Path, store: str) -> bool:
    """Delete the old store that an earlier migration left. Return True if it existed."""
    at = places(root)
    shutil.rmtree(at.dropped, ignore_errors=True)
    aside = at.old / store
    found = aside.is_dir()
    if found:
        aside.rename(at.dropped)  # a partly deleted store must not look like a complete old store
        shutil.rmtree(at.dropped)
    _remove_empty(root)
    return found


def clean(root: Path) -> None:
    """Delete the unfinished new stores of an interrupted migration."""
    at = places(root)
    for folder in (at.new, at.dropped):
        shutil.rmtree(folder, ignore_errors=True)
    _remove_empty(root)


def _remove_empty(root: Path) -> None:
    at = places(root)
    for folder in (at.old, at.home):
        with suppress(OSError):  # the folder is not empty
            folder.rmdir()


def moves(plan: Plan, before: Engine, after: Engine, root: Path) -> tuple[Move, ...]:
    """Return the current and the target paths of the stores' files."""
    new = places(root).new
    return tuple(
        Move(store, _folder_of(before, root, store), _folder_of(after, new, store))
        for store in plan.stores
    )

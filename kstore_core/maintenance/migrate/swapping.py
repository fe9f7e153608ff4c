"""Putting new stores in the place of old ones, by renaming; each step may be the last one made."""

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
    """The folder of all files of a store and no others, relative to ``root``.

    Raises
    ------
    UnsupportedError
        The engine keeps a store elsewhere.
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
            f"the engine {engine.name!r} keeps the store {store!r} in {folder}, which is no folder "
            f"of its own within {root}, so it cannot be put in another place"
        )
    return str(folder.relative_to(root))


def swap(
    root: Path, plan: Plan, lock: DirectoryLock, callback: Callable[[str, str], object]
) -> None:
    """Set the old stores aside, put the new ones in their place, and forget the plan.

    Parameters
    ----------
    callback : callable
        Called before each step with its name and the store.

    Raises
    ------
    StateError
        Something else is in a place.
    """
    at = places(root)
    for store, before, after in plan.moves:
        new, old, aside = at.new / after, root / before, at.old / store / before
        if not new.exists():
            continue  # it is in its place
        if old.exists():
            callback("set aside", store)
            _rename(old, aside, root)
            DirectoryLock(at.old / store, plan.before).release()  # it says the engine
        callback("put in place", store)
        _rename(new, root / after, root)
    if plan.before != plan.after:
        callback("record", plan.stores[0])
        lock.record(plan.after)
        for move in plan.moves:
            with suppress(OSError):  # something else is in it
                (root / move.before).parent.rmdir()
    callback("finish", plan.stores[0])
    at.plan.unlink()
    sync_directory(at.home)
    clean(root)


def _rename(path: Path, target: Path, root: Path) -> None:
    if target.exists():
        raise StateError(
            f"{path} is to become {target}, which exists: something has made it since the "
            "migration was begun. Nothing was changed; move it away, and run kstore migrate again"
        )
    made = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)
    for folder in {path.parent, target.parent, *(folder.parent for folder in made)}:
        if folder.is_relative_to(root):
            sync_directory(folder)


def set_aside(root: Path, store: str) -> Path | None:
    """The state directory of the old store; None if there is none."""
    aside = places(root).old / store
    return aside if aside.is_dir() else None


def discard(root: Path, store: str) -> bool:
    """Delete the old store; return True if there was one."""
    at = places(root)
    shutil.rmtree(at.dropped, ignore_errors=True)
    aside = at.old / store
    found = aside.is_dir()
    if found:
        aside.rename(at.dropped)  # or half of it would look like all of it
        shutil.rmtree(at.dropped)
    _remove_empty(root)
    return found


def clean(root: Path) -> None:
    """Delete what has been made beside the stores."""
    at = places(root)
    for folder in (at.new, at.dropped):
        shutil.rmtree(folder, ignore_errors=True)
    _remove_empty(root)


def _remove_empty(root: Path) -> None:
    at = places(root)
    for folder in (at.old, at.home):
        with suppress(OSError):  # it holds something
            folder.rmdir()


def moves(plan: Plan, before: Engine, after: Engine, root: Path) -> tuple[Move, ...]:
    """The current and the target paths of the stores' files."""
    new = places(root).new
    return tuple(
        Move(store, _folder_of(before, root, store), _folder_of(after, new, store))
        for store in plan.stores
    )

"""Consistent copies of state directories.

The engine copies each database as of one point in time. But a commit to several databases writes to
one database after another, so all databases must be copied while no commit is running. A lock in
memory prevents commits of this process during the copy. If the lock file shows a commit of another
process during the copy (`DirectoryLock.change`), the copy is made again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from kstore_core.engine import Database, Engine
from kstore_core.engine.paths import check_target
from kstore_core.errors import EngineError, SpecError, UnsupportedError
from kstore_core.state.contents import store_names
from kstore_core.state.migration_note import check_not_moving
from kstore_core.state.open_store import OpenStore
from kstore_core.system.directories import sync_directory
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.system.lock import DirectoryLock, noted_changes
from kstore_core.tables.segments.children import max_open

__all__ = ["write_checkpoint"]

_ATTEMPTS = 200
_PAUSE_S = 0.01
_MARK = ".kstore-checkpoint~"

Result = TypeVar("Result")

Place = Callable[[Path], Path]
"""A function that takes the path of a database and returns the path of its copy."""


def write_checkpoint(
    engine: Engine, root: Path, opened: Mapping[str, OpenStore], dest: Path
) -> list[str]:
    """Copy all stores to the new directory ``dest``, and return the names of the stores.

    Parameters
    ----------
    opened : mapping of str to OpenStore
        The stores that this process has open for writing. The caller must prevent commits to these
        stores during the copy.

    Raises
    ------
    FileExistsError
        ``dest`` exists.
    """
    _check(engine, root, dest)
    names = store_names(engine, root, opened)
    for name in names:
        check_not_moving(root, name)
    aside = dest.with_name(f".{dest.name}{_MARK}")
    aside.mkdir(parents=True, exist_ok=True)

    def place(path: Path) -> Path:
        return aside / path.relative_to(root)

    with uninterrupted():
        lock = DirectoryLock(aside, engine.name)  # its file records the engine of the copy
        try:
            with interruptible():
                _clear(aside)
                for name in engine.parents(root):
                    if name in names:  # even a parent without segments
                        engine.make_parent(aside, name)
                for store in opened.values():
                    store.checkpoint(place)
                _copy(engine, root, [name for name in names if name not in opened], place)
                _sync(aside)
            aside.rename(dest)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            lock.release()
        sync_directory(dest.parent)
    return names


def _check(engine: Engine, root: Path, dest: Path) -> None:
    if not engine.capabilities.persistent:
        raise UnsupportedError(
            f"the engine {engine.name!r} stores its rows in memory, so a checkpoint has no files "
            "to copy. Use another engine, such as rocksdb or lmdb, or open the state directory "
            "with a changelog, from which its stores can be restored"
        )
    if not engine.capabilities.checkpoint:
        raise UnsupportedError(
            f"the engine {engine.name!r} cannot copy an open database, because its "
            "capabilities.checkpoint is False. Close the state directory, and copy its files"
        )
    check_target(dest)
    if dest.is_relative_to(root):
        raise SpecError(
            f"the checkpoint {dest} would be inside the state directory {root}; pass a path "
            "outside of the state directory"
        )


def _copy(engine: Engine, root: Path, names: Iterable[str], place: Place) -> None:
    """Copy stores that this process has not opened, at a time when no commit is running."""
    openers: list[Callable[..., Database]] = []
    for name in names:
        if name in engine.parents(root):
            children = engine.children(root, name)
            openers += [partial(engine.open_child, root, name, child) for child in children]
        else:
            openers.append(partial(engine.open, root, name))
    if len(openers) > max_open():  # the process cannot have so many files open
        _at_rest(root, lambda _: _copy_in_turn(openers, place))
        return
    with ExitStack() as held:

        def open_all(stack: ExitStack) -> list[Database]:
            databases = []
            for open_one in openers:
                with suppress(FileNotFoundError):  # the segment has expired
                    databases.append(stack.enter_context(closing(open_one(read_only=True))))
            return databases

        for database in _at_rest(root, open_all, held) if openers else ():
            database.checkpoint(place(database.path))


def _copy_in_turn(openers: Iterable[Callable[..., Database]], place: Place) -> None:
    for open_one in openers:
        with suppress(FileNotFoundError), closing(open_one(read_only=True)) as database:
            target = place(database.path)
            shutil.rmtree(target, ignore_errors=True)  # of an earlier attempt
            database.checkpoint(target)


def _at_rest(
    root: Path, work: Callable[[ExitStack], Result], held: ExitStack | None = None
) -> Result:
    """Call ``work`` until no other process commits during a call, and return the last result.

    If ``held`` is given, it later closes the resources that the last call opened.
    """
    for _ in range(_ATTEMPTS):
        before = noted_changes(root)
        if before.at_rest:
            with ExitStack() as stack:
                result = work(stack)
                if noted_changes(root) == before:
                    if held is not None:
                        held.push(stack.pop_all())
                    return result
        time.sleep(_PAUSE_S)
    raise EngineError(
        f"{root} could not be copied, because another process committed during each of "
        f"{_ATTEMPTS} attempts. Try again, or make the checkpoint in the writing process with "
        "state.checkpoint(…), which delays commits until the copy is complete"
    )


def _clear(folder: Path) -> None:
    """Remove the subfolders that remain of an earlier copy whose process was killed."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)


def _sync(folder: Path) -> None:
    """Sync a folder with all its files and subfolders to disk."""
    for path, _, files in os.walk(folder):
        for file in files:
            with Path(path, file).open("rb") as opened:
                os.fsync(opened.fileno())
        sync_directory(Path(path))

"""The migration of stores, and what becomes of one that was killed.

A plan is noted before anything is made. While it says ``copy`` the stores are as they were, and
whoever comes next starts over; once it says ``swap`` whoever comes next finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kstore_core.changelog import Changelog
from kstore_core.engine import Engine
from kstore_core.errors import SpecError, StateError
from kstore_core.hints import command
from kstore_core.maintenance.migrate.results import Migrated, MigrateProgress, ProgressCallback
from kstore_core.maintenance.migrate.swapping import discard, set_aside, swap
from kstore_core.maintenance.migrate.work import To, Work, check_on_disk
from kstore_core.plugins.registry import make_engine
from kstore_core.spec import StoreSpec, check_name
from kstore_core.state import open_state
from kstore_core.state.migration_note import Plan, read_plan
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.system.lock import DirectoryLock

__all__ = ["drop_old", "migrate"]

Result = TypeVar("Result")


def migrate(
    path: str | os.PathLike[str],
    store: str,
    *,
    to: To = None,
    engine: str | Engine | None = None,
    every_store: bool = False,
    from_log: Changelog | None = None,
    spec: StoreSpec | Sequence[StoreSpec] | None = None,
    lossy: bool = False,
    drop_old: bool = False,
    options: Mapping[str, Any] | None = None,
    lock_timeout_s: float = 0,
    on_progress: ProgressCallback | None = None,
) -> list[Migrated]:
    """Write a store anew, in another format, engine or shape, and put it in the place of the old.

    The new one is written beside, compared with the old one row by row, and renamed into place; the
    old one is set aside. What interrupts this, SIGKILL included, leaves the old store, or the new
    one, or neither to be opened before the same call has finished it.

    Parameters
    ----------
    path : path-like
        The state directory, open for writing nowhere else.
    store : str
    to : str, ValueFormat or StoreSpec, optional
        The format, by its name or by ``"plain"``, ``"timestamped"`` or ``"headers"``; with
        ``from_log`` the spec of a versioned store. Left out, it stays what it is.
    engine : str or Engine, optional
        To which all stores of the directory go: another one, or this one with other options.
    every_store : bool
        Whether they may: where there are others than this one.
    from_log : Changelog, optional
        Of a key-value store, which becomes a versioned one.
    spec : StoreSpec or several, optional
        What stores are of which the directory does not callback.
    lossy : bool
        Whether headers and timestamps may be lost, or values may be other ones.
    drop_old : bool
        Whether the old stores are deleted, with what earlier migrations have set aside of them.
    options : mapping, optional
        Of the engine that the directory has.
    lock_timeout_s
        As in :func:`kstore_core.open_state`.
    on_progress : callable, optional
        What it raises ends the migration there.

    Returns
    -------
    list of Migrated
        Of this store first; and of the others where the engine changes.

    Raises
    ------
    StateError
        There is no such directory or store; it has others; an earlier old store is still there.
    SpecError
        The directory does not callback what the store is, or there is no such format of its shape.
    FormatDowngradeError
        Something would be lost.
    InconsistentStateError
        The store holds what no store of its kind does; the log is not its own.
    UnsupportedError
        An engine keeps nothing on disk.
    FormatError, CorruptionError
        Its rows are damaged, or the new store is not like it.
    EngineLockedError
        Somebody else has the directory open for writing.
    """
    given = [spec] if isinstance(spec, StoreSpec) else spec or []
    specs = {one.name: one for one in given}

    def work(root: Path, source: Engine, lock: DirectoryLock, plan: Plan | None) -> list[Migrated]:
        callback = on_progress or (lambda progress: None)
        finished: list[Migrated] = []
        if plan is not None and plan.step == "swap":
            swap(root, plan, lock, lambda step, name: callback(MigrateProgress(name, step)))
            finished = [
                Migrated(name, True, plan.before, plan.after, old=set_aside(root, name))
                for name in plan.stores
            ]
            if isinstance(engine, Engine) and engine.name == plan.after:
                source = engine
            elif plan.before != plan.after:
                source = make_engine(plan.after)
        if to is None and engine is None and from_log is None:
            if not finished:
                raise SpecError(
                    f"there is no migration of the store {store!r} in {root} to be finished; say "
                    "which format (to=, --to) or engine (engine=, --engine) it is to have"
                )
            done = finished
        else:
            done = Work(root, source, specs, callback, lossy=lossy).run(
                store, to, engine, from_log, every_store, lock, drop_old=drop_old
            )
            done = finished if finished and not any(one.changed for one in done) else done
        for one in done if drop_old else ():
            callback(MigrateProgress(one.store, "drop"))
            discard(root, one.store)
            one.old = None
        return done

    return _with_lock(path, options, lock_timeout_s, work)


def drop_old(
    path: str | os.PathLike[str],
    store: str,
    *,
    options: Mapping[str, Any] | None = None,
    lock_timeout_s: float = 0,
) -> bool:
    """Delete a store's old files that a migration left; return True if there were any.

    Raises
    ------
    SpecError
        No store can have such a name.
    StateError
        There is no such directory or store, or an unfinished migration must be finished first.
    EngineLockedError
        Another process has the directory open for writing.
    """
    check_name(store)

    def work(root: Path, engine: Engine, lock: DirectoryLock, plan: Plan | None) -> bool:
        if plan is not None and plan.step == "swap":
            raise StateError(
                f"a migration of {', '.join(plan.stores)} in {root} is to be finished before "
                f"anything is deleted: {command('migrate', root, plan.stores[0])}"
            )
        found = discard(root, store)
        if not found:
            with open_state(root, engine=engine, read_only=True) as state:
                there = state.stores()
            if store not in there:
                raise StateError(
                    f"{root} has no store {store!r}, and nothing of one is set aside; it has: "
                    f"{', '.join(there) or 'none'}"
                )
        return found

    return _with_lock(path, options, lock_timeout_s, work)


def _with_lock(
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None,
    timeout_s: float,
    work: Callable[[Path, Engine, DirectoryLock, Plan | None], Result],
) -> Result:
    """Do ``work`` with a state directory, its engine, its lock, and the plan of a migration, if one
    was begun.
    """
    root = Path(path).resolve()
    if not root.is_dir():
        raise StateError(f"no state directory at {path}")
    begun = read_plan(root)
    if begun is None:
        with open_state(root, options=options, read_only=True) as state:
            engine = state.engine
    else:
        engine = make_engine(begun.before, options)
    check_on_disk(engine)
    with uninterrupted():
        lock = DirectoryLock(root, engine.name, timeout_s)
        try:
            with interruptible():
                return work(root, engine, lock, read_plan(root))
        finally:
            lock.release()

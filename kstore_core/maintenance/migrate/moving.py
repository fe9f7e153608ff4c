"""The migration of stores, and the recovery of a migration that was interrupted.

A migration first writes a plan, which contains its current phase. If the migration is interrupted
in the phase ``copy``, the old stores are unchanged, and the next run starts from the beginning. If
the migration is interrupted in the phase ``swap``, the next run finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kstore_core.changelog import Changelog
from kstore_core.checks import existing_directory
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine
from kstore_core.errors import SpecError, StateError
from kstore_core.hints import command
from kstore_core.maintenance.migrate.results import Migrated, MigrateProgress, ProgressCallback
from kstore_core.maintenance.migrate.swapping import discard, set_aside, swap
from kstore_core.maintenance.migrate.work import To, Work, check_on_disk
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
    """Rewrite a store in another format, engine or shape, and replace the old store.

    The new store is first written to a folder of the state directory and compared with the old
    store row by row. Then the old store is moved to another folder, and the new store takes the
    name of the old store. If the migration is interrupted, even by SIGKILL, the state directory has
    either the old store or the new store. If the migration is interrupted during the replacement,
    the store cannot be opened until another call of this function has finished the migration.

    Parameters
    ----------
    path : path-like
        The state directory. No other process may have it open for writing.
    store : str
    to : str, ValueFormat or StoreSpec, optional
        The new format, by its name or by ``"plain"``, ``"timestamped"`` or ``"headers"``. With
        ``from_log``, it must be the spec of a versioned store. Default: the current format.
    engine : str or Engine, optional
        The new engine of all stores of the directory. It may be another engine, or the current
        engine with other options. By default the engine does not change.
    every_store : bool
        True to also migrate the other stores of the directory. It must be True if the engine
        changes and the directory has other stores.
    from_log : Changelog, optional
        The changelog of a key-value store. If it is given, the store becomes a versioned store with
        the history in the changelog.
    spec : StoreSpec or several, optional
        The specs of stores that have no stored spec.
    lossy : bool
        True to accept that headers and timestamps are lost, or that newest values differ.
    drop_old : bool
        True to delete the old stores, including the old stores of earlier migrations.
    options : mapping, optional
        The options of the current engine.
    lock_timeout_s
        The argument of :func:`kstore_core.open_state`.
    on_progress : callable, optional
        A function that is called with each `MigrateProgress`. If it raises an exception, the
        migration ends.

    Returns
    -------
    list of Migrated
        The result for this store, followed by the results for the other moved stores.

    Raises
    ------
    StateError
        The state directory or the store does not exist, the directory has other stores that would
        keep the old engine, or the old store of an earlier migration still exists.
    SpecError
        The store has no stored spec and ``spec`` does not describe it, or a store of this shape
        cannot have the new format.
    FormatDowngradeError
        Headers or timestamps would be lost.
    InconsistentStateError
        The store has a namespace that no store of its shape has, or the log belongs to another
        store.
    UnsupportedError
        The current engine or the new engine stores nothing on disk, or does not store the files of
        this store in a separate folder.
    FormatError, CorruptionError
        Rows are damaged, or the new store differs from the old store.
    EngineLockedError
        Another process has the directory open for writing.
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
                    f"{root} has no migration of the store {store!r} that could be continued. To "
                    "begin a migration, pass a format (to=, --to) or an engine (engine=, --engine)"
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
    """Delete the old files that an earlier migration of a store left.

    Return True if there were such files.

    Raises
    ------
    SpecError
        The store's name is invalid.
    StateError
        The state directory or the store does not exist, or a migration is unfinished.
    EngineLockedError
        Another process has the directory open for writing.
    """
    check_name(store)

    def work(root: Path, engine: Engine, lock: DirectoryLock, plan: Plan | None) -> bool:
        if plan is not None and plan.step == "swap":
            raise StateError(
                f"a migration of {', '.join(plan.stores)} in {root} is unfinished. Before you "
                "delete old files, finish the migration with: "
                + command("migrate", root, plan.stores[0])
            )
        found = discard(root, store)
        if not found:
            with open_state(root, engine=engine, read_only=True) as state:
                there = state.stores()
            if store not in there:
                raise StateError(
                    f"{root} has no store {store!r} and no old files of such a store; it has: "
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
    """Lock the state directory, call ``work``, and return the result of ``work``.

    The arguments of ``work`` are the directory, its engine, the lock, and the plan of an unfinished
    migration or None.
    """
    root = existing_directory(path)
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

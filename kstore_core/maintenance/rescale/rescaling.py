"""The function `rescale_tasks`, which writes m task directories from n task directories.

The new directories are built beside the target. One rename publishes all of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.checks import check_partitions, resolved_path
from kstore_core.errors import SpecError, StateError
from kstore_core.maintenance.migrate.results import MigrateProgress, ProgressCallback
from kstore_core.maintenance.rescale.moving import Move
from kstore_core.maintenance.rescale.sources import input_offsets, read_source
from kstore_core.maintenance.rescale.tasks import Tasks, find_tasks, locked
from kstore_core.offsets.entries import Partition
from kstore_core.spec import StoreSpec
from kstore_core.system.directories import sync_directory
from kstore_core.system.lock import LOCK_FILE, DirectoryLock

__all__ = ["RescaledStore", "rescale_tasks"]


@dataclass(frozen=True, slots=True)
class RescaledStore:
    """The result of a rescale for one store.

    Attributes
    ----------
    store : str
        The name of the store.
    before, partitions : int
        The old and the new number of tasks.
    rows : int
        The number of moved rows. For a versioned store, a row contains the latest version of a key,
        or its versions in one segment.
    offsets : tuple of dict
        The input offsets of each old task, by topic and partition. The offsets of the changelog are
        left out.
    """

    store: str
    before: int
    partitions: int
    rows: int
    offsets: tuple[dict[Partition, int], ...]


def rescale_tasks(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    partitions: int,
    store: str | None = None,
    spec: StoreSpec | Sequence[StoreSpec] | None = None,
    subtopology: str | None = None,
    tasks: int | None = None,
    keep_offsets: bool = False,
    options: Mapping[str, Any] | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[RescaledStore]:
    """Write the stores of an application to new directories for another number of tasks.

    Kafka's murmur2 partitioner selects the new task of each key. The bytes of a row do not change,
    so headers, times and history stay. The new directories have the engine of the old directories.
    The function changes no store in ``path``. A call that fails or is killed leaves no incomplete
    ``target``.

    The new stores have no offsets of changelogs, because a rescaled application has another
    changelog. docs/rescaling.md describes what to do before Kafka Streams opens the stores.

    Parameters
    ----------
    path : path-like
        The directory ``state.dir/application.id`` with the tasks ``0_0``, ``0_1``, … of a
        sub-topology. The application must not run.
    target : path-like
        The new directory of the application. The directory must be missing or empty.
    partitions : int
        The new number of tasks.
    store : str, optional
        The name of the only store to write. Default: all stores.
    spec : StoreSpec or several, optional
        The specs of stores that have no stored spec.
    subtopology : str, optional
        The sub-topology, such as ``"0"``. It may be None if only one sub-topology has stores on
        disk.
    tasks : int, optional
        The number of tasks that ``path`` must have. Without this argument, the function does not
        notice if the tasks with the greatest numbers are missing.
    keep_offsets : bool
        True to keep the offsets and positions of the input. The topics of the input must then keep
        their partitions and records.
    options : mapping, optional
        The options of the engine.
    on_progress : callable, optional
        A function that is called with each :class:`kstore_core.migrate.MigrateProgress`. Its step
        is ``"move"`` or ``"publish"``. If it raises an exception, the rescale ends.

    Returns
    -------
    list of RescaledStore
        The results, in the order of the names of the stores.

    Raises
    ------
    SpecError
        ``partitions`` is not an int from 1 to 2147483647, or is the present number of tasks. A
        store has no stored spec and ``spec`` does not describe it. Several sub-topologies have
        stores. Or a key is not in the task that murmur2 selects.
    StateError
        ``path`` has no tasks, a task or a store is missing, ``target`` is not empty, or one path
        contains the other. A store was not closed. The tasks have different engines, specs or notes
        (values that the program stored at a commit). ``keep_offsets`` is True, and the tasks have
        different input offsets. Or rows of a window or session store on RocksDB would expire.
    EngineLockedError
        The application runs, or another rescale writes to ``target``.
    CorruptionError
        A store is damaged.
    StorageFullError
        The disk of ``target`` is full.
    """
    check_partitions(partitions)
    given = [spec] if isinstance(spec, StoreSpec) else spec or []
    specs = {one.name: one for one in given}
    source, place = resolved_path(path), resolved_path(target)
    _check_target(source, place)
    found = find_tasks(source, subtopology, tasks, options)
    before = len(found.directories)
    if before == partitions:
        raise SpecError(
            f"{source} already has {before} tasks; pass another number as partitions "
            "(--partitions on the command line)"
        )
    names = _names(found, store, specs)
    callback = on_progress or (lambda progress: None)
    with locked(found), _built(place, found.engine.name) as scratch:
        sources = {name: read_source(found, name, specs.get(name)) for name in names}
        new = [scratch / f"{found.topology}_{number}" for number in range(partitions)]
        for directory in new:
            directory.mkdir(mode=0o750)
        moves = {
            name: Move(found, one, new, callback, keep_offsets=keep_offsets)
            for name, one in sources.items()
        }
        done = [
            RescaledStore(
                name,
                before,
                partitions,
                move.run(),
                tuple(input_offsets(name, record) for record in sources[name].records),
            )
            for name, move in moves.items()
        ]
        for directory in new:
            DirectoryLock(directory, found.engine.name).release()  # This records the engine.
            sync_directory(directory)
        callback(MigrateProgress(names[0], "publish"))
    return done


def _names(tasks: Tasks, store: str | None, specs: Mapping[str, StoreSpec]) -> list[str]:
    """Return the names of the stores to write."""
    there = ", ".join(tasks.stores)
    for name in (*specs, *([] if store is None else [store])):
        if name not in tasks.stores:
            raise StateError(f"the tasks in {tasks.application} have no store {name!r}; they have: "
                             f"{there}")  # fmt: skip
    return list(tasks.stores) if store is None else [store]


def _check_target(source: Path, target: Path) -> None:
    """Raise a StateError if ``target`` has files, or if one of the two paths contains the other."""
    if target.is_relative_to(source) or source.is_relative_to(target):
        raise StateError(
            f"{source} and the target {target} are the same directory, or one contains the other. "
            f"Pass a new directory beside {source} as the target"
        )
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        raise _occupied(target)


def _occupied(target: Path) -> StateError:
    return StateError(
        f"{target} exists and is not an empty directory. Nothing was changed; pass a new directory "
        "as the target"
    )


@contextmanager
def _built(target: Path, engine: str) -> Iterator[Path]:
    """Yield a new directory, and rename it to ``target`` at the end.

    After an error, remove the directory. If the process is killed, the directory remains, and the
    next call for the same target empties it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.rescaling")
    scratch.mkdir(exist_ok=True)
    lock = DirectoryLock(scratch, engine)
    try:
        for left in scratch.iterdir():
            if left.name != LOCK_FILE:
                shutil.rmtree(left)
        yield scratch
        sync_directory(scratch)
        try:
            scratch.rename(target)
        except OSError as error:
            if os.path.lexists(target):
                raise _occupied(target) from error
            raise
        (target / LOCK_FILE).unlink()
        sync_directory(target.parent)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    finally:
        lock.release()

"""The task directories of a Kafka Streams application, and the locks of these directories."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine
from kstore_core.errors import EngineLockedError, SpecError, StateError
from kstore_core.maintenance.doctor.holders import holders
from kstore_core.system.lock import LOCK_FILE, DirectoryLock

__all__ = [
    "Tasks",
    "engine_of_task",
    "existing_tasks",
    "find_tasks",
    "locked",
    "stores_of_task",
    "task_names",
]

_TASK = re.compile(r"((?:.+__)?[0-9]+)_([0-9]+)")
_KAFKA_LOCK = ".lock"
"""The file in an application directory that a running Kafka Streams locks."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of one sub-topology.

    Attributes
    ----------
    application : Path
        The directory of the application, ``state.dir/application.id``.
    topology : str
        The sub-topology, such as ``0``, or ``name__0`` in a named topology.
    directories : tuple of Path
        The directories of the tasks, in the order of their partitions.
    stores : tuple of str
        The sorted names of the stores. Each task has all of them.
    engine : Engine
    """

    application: Path
    topology: str
    directories: tuple[Path, ...]
    stores: tuple[str, ...]
    engine: Engine


def task_names(application: Path) -> dict[str, tuple[str, int]]:
    """Return the sub-topology and the partition of each task, by the name of its directory.

    The result is sorted. It is empty if the directory does not exist or has no tasks.
    """
    if not application.is_dir():
        return {}
    matches = (_TASK.fullmatch(path.name) for path in application.iterdir() if path.is_dir())
    found = {match[0]: (match[1], int(match[2])) for match in matches if match is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def existing_tasks(application: Path) -> dict[str, tuple[str, int]]:
    """Return the result of :func:`task_names`, or raise a StateError if there are no tasks."""
    names = task_names(application)
    if not names:
        raise StateError(
            f"{application} has no task directories such as 0_0. Pass the directory "
            "state.dir/application.id of a Kafka Streams application"
        )
    return names


def engine_of_task(task: Path) -> str:
    """Return the name of the engine of a task directory.

    If the directory has no stores and records no engine, the result is ``rocksdb``, the engine of
    Kafka Streams.
    """
    from kstore_core.state.recognition import engine_of, recognised
    from kstore_core.system.lock import recorded_engine

    if recorded_engine(task) is None and not recognised(task):
        return "rocksdb"
    return engine_of(task)


def stores_of_task(task: Path, engine: str | None = None) -> list[str]:
    """Return the sorted names of the stores of a task directory.

    ``engine`` is the name of the engine. If it is None, :func:`engine_of_task` finds the engine.
    """
    from kstore_core.state.contents import store_names

    return store_names(make_engine(engine or engine_of_task(task), None), task, ())


def find_tasks(
    application: Path,
    subtopology: str | None = None,
    count: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Tasks:
    """Return the tasks of a sub-topology.

    Parameters
    ----------
    application : Path
        The directory of the application.
    subtopology : str, optional
        The sub-topology. Default: the only sub-topology that has stores.
    count : int, optional
        The number of tasks that must exist.
    options : mapping, optional
        The options of the engine.

    Raises
    ------
    SpecError
        Several sub-topologies have stores, and ``subtopology`` is None.
    StateError
        There are no tasks or no stores, a task is missing or lacks a store, or the tasks have
        different engines.
    """
    names = existing_tasks(application)
    engine_of = {name: engine_of_task(application / name) for name in names}
    stores = {name: stores_of_task(application / name, engine_of[name]) for name in names}
    topology = _topology(application, names, stores, subtopology)
    numbers = {at: name for name, (of_task, at) in names.items() if of_task == topology}
    expected = max(numbers) + 1 if count is None else count
    if sorted(numbers) != list(range(expected)):
        raise StateError(
            f"the sub-topology {topology} in {application} has the tasks "
            f"{', '.join(numbers[at] for at in sorted(numbers))}, but must have the {expected} "
            f"tasks {topology}_0 to {topology}_{expected - 1}. Copy the task directories of all "
            "instances of the application into one directory, and rescale this directory"
        )
    directories = tuple(application / numbers[at] for at in range(expected))
    known = sorted({store for at in directories for store in stores[at.name]})
    for at in directories:
        lacking = [store for store in known if store not in stores[at.name]]
        if lacking:
            raise StateError(
                f"{at} lacks the stores {', '.join(lacking)}, which other tasks of the "
                f"sub-topology {topology} have; the task may never have run. Start the "
                "application, stop it after it has started all tasks, and rescale again"
            )
    engines = {engine_of[at.name]: at for at in reversed(directories)}
    if len(engines) > 1:
        listed = ", ".join(f"{name} in {at.name}" for name, at in engines.items())
        raise StateError(
            f"the tasks in {application} have different engines: {listed}. Migrate them to one "
            "engine with kstore migrate"
        )
    return Tasks(
        application, topology, directories, tuple(known), make_engine(next(iter(engines)), options)
    )


def _topology(
    application: Path,
    names: Mapping[str, tuple[str, int]],
    stores: Mapping[str, list[str]],
    wanted: str | None,
) -> str:
    """Return the sub-topology ``wanted``, or the only sub-topology that has stores."""
    able = sorted({topology for name, (topology, _) in names.items() if stores[name]})
    if not able:
        raise StateError(
            f"no task in {application} has a store on disk, so there is nothing to rescale. Pass "
            "the directory of an application with persistent stores"
        )
    if wanted is None and len(able) > 1:
        raise SpecError(
            f"{application} has tasks of the sub-topologies {', '.join(able)}, which may have "
            "different numbers of tasks. Pass one of them as subtopology (--subtopology on the "
            "command line)"
        )
    if wanted is not None and wanted not in able:
        raise StateError(
            f"{application} has no tasks with stores of the sub-topology {wanted!r}; the "
            f"sub-topologies with stores are: {', '.join(able)}"
        )
    return able[0] if wanted is None else wanted


@contextmanager
def locked(tasks: Tasks) -> Iterator[None]:
    """Lock the application and all its tasks against Kafka Streams and kstore.

    At the end, lock files that did not exist before are removed.

    Raises
    ------
    EngineLockedError
        Kafka Streams runs in the directory, or a task is open for writing.
    StateError
        A lock file cannot be written.
    """
    with ExitStack() as locks:
        locks.enter_context(_without_kafka(tasks.application))
        for directory in tasks.directories:
            locks.enter_context(_task_lock(directory, tasks.engine.name))
        yield


@contextmanager
def _task_lock(directory: Path, engine: str) -> Iterator[None]:
    is_new = not (directory / LOCK_FILE).exists()
    lock = DirectoryLock(directory, engine)
    try:
        yield
    finally:
        if is_new:
            (directory / LOCK_FILE).unlink(missing_ok=True)
        lock.release()


@contextmanager
def _without_kafka(application: Path) -> Iterator[None]:
    """Lock the file that Kafka Streams locks while it runs in the directory."""
    path = application / _KAFKA_LOCK
    is_new = not path.exists()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise StateError(
            f"kstore cannot lock {application}, because the lock file of Kafka Streams, {path}, "
            f"cannot be opened: {error.strerror}. Correct the permissions, or rescale a copy of "
            "the directory"
        ) from error
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            found = holders([path])
            pid = found[0].pid or None if found else None
            who = f" in {found[0]}" if found else ""
            raise EngineLockedError(
                f"Kafka Streams runs in {application}{who}. Stop the application, and rescale "
                "again",
                pid=pid,
            ) from None
        try:
            yield
        finally:
            if is_new:
                path.unlink(missing_ok=True)
    finally:
        os.close(file)

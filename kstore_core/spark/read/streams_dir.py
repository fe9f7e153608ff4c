"""Reads of a store of a Kafka Streams application, from the state directories of its tasks."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError, StateError
from kstore_core.spark.read.plan import Part, ReadPlan, View, plan_records
from kstore_core.spark.read.read_store import Timestamps, frame_of
from kstore_core.spark.read.selection import Selection, keys_of, prefix_bytes, select
from kstore_core.spark.root.storage.addresses import local_path
from kstore_core.spec import StoreSpec
from kstore_core.types import Time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TaskReader", "plan_streams_dir", "read_streams_dir"]

_TASK = re.compile(r"((?:.+__)?[0-9]+)_([0-9]+)")


def read_streams_dir(
    spark: SparkSession,
    path: str | os.PathLike[str],
    spec: StoreSpec,
    *,
    as_of: Time | None = None,
    history: bool = False,
    from_ts: Time | None = None,
    to_ts: Time | None = None,
    key: Any = None,
    keys: Iterable[Any] | None = None,
    prefix: str | bytes | None = None,
    columns: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    headers: bool | None = None,
    timestamps: Timestamps = "timestamp",
) -> DataFrame:
    """Read a store from the state directory of a Kafka Streams application, with all its tasks.

    The application may run meanwhile: the read writes and locks nothing. A Spark task reads the
    store of one application task, as of the start of the Spark task.

    Parameters
    ----------
    spark : SparkSession
    path : path
        ``state.dir/application.id``: the directory of ``0_0``, ``0_1``, ``1_0``, …, where every
        worker sees it.
    spec : StoreSpec
        The store's description, which the directory does not contain.
    partitions : sequence of int, optional
        Only the tasks of these partitions; a missing task is an error. By default all tasks, with
        a warning about gaps between their numbers.
    as_of, history, from_ts, to_ts, key, keys, prefix, columns, headers, timestamps
        As for :func:`kstore_core.spark.read_store`. A key is looked up in every task, since the
        application may have its own partitioner.

    Returns
    -------
    DataFrame
        The columns of :func:`kstore_core.spark.read_store`, and ``task``.

    Raises
    ------
    StateError
        There are no tasks, or a task lacks the store, or one of ``partitions`` is missing.
    """
    wanted = keys_of(spec, key, keys)
    selection = select(spec, as_of, history, from_ts, to_ts, wanted, prefix_bytes(prefix))
    view = View(columns, partitions, headers, timestamps)
    place = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    return frame_of(spark, plan_streams_dir(place, spec, selection, view))


def plan_streams_dir(path: str, spec: StoreSpec, selection: Selection, view: View) -> ReadPlan:
    """Plan :func:`read_streams_dir`."""
    found = local_path(path)
    if found is None:
        raise SpecError(
            f"{path!r} is not a directory of a file system; the state directory of a Kafka Streams "
            "application is read in place, or from a copy on a disk that every worker sees"
        )
    where, partitions = Path(found), view.partitions
    tasks = _tasks_of(where, spec.name, partitions)
    numbers = {partition for _, partition in tasks.values()}
    if partitions is not None:
        missing = sorted(set(partitions) - numbers)
        if missing:
            raise StateError(
                f"{where} has no task of the store {spec.name!r} for the partitions "
                f"{', '.join(map(str, missing))}; it has {', '.join(tasks)}. Another instance of "
                "the application may have the missing tasks"
            )
        numbers = set(partitions)
    gaps = sorted(set(range(max(numbers, default=0))) - numbers) if partitions is None else []
    if gaps:
        warnings.warn(
            f"{where} has no tasks of the store {spec.name!r} for the partitions "
            f"{', '.join(map(str, gaps))}, which are lost or with another instance of the "
            "application; the read returns the others. Pass partitions to name the expected ones",
            stacklevel=3,
        )
    parts = tuple(
        Part(str(where / task), {"task": task, "partition": partition}, selection.keys)
        for task, (_, partition) in tasks.items()
        if partition in numbers
    )
    return plan_records(TaskReader(spec), selection, view, parts, ("task", "partition"))


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Opens the store of a task directory."""

    spec: StoreSpec

    @contextmanager
    def open(self, shard: str) -> Iterator[Any]:
        """Open the store of a task, as of its last commit."""
        from kstore_core import open_state
        from kstore_core.spark.runtime.engines import engine_on_worker
        from kstore_core.spark.shards.published import bare

        engine = _engine_of(Path(shard))
        engine_on_worker(engine)
        with open_state(shard, engine=engine, read_only=True) as state:
            yield state.open(bare(self.spec))


def _tasks_of(
    where: Path, store: str, partitions: Sequence[int] | None
) -> dict[str, tuple[str, int]]:
    """Return the tasks that have the store, by name: their sub-topologies and partitions."""
    found: dict[str, tuple[str, int]] = {}
    if where.is_dir():
        for match in (_TASK.fullmatch(path.name) for path in where.iterdir() if path.is_dir()):
            if match is not None:
                found[match[0]] = (match[1], int(match[2]))
    if not found:
        raise StateError(
            f"{where} has no task directories such as 0_0; pass the directory of an application, "
            "which is state.dir/application.id"
        )
    tasks = dict(sorted(found.items(), key=lambda item: item[1]))
    stores = {task: _stores_of(where / task) for task in tasks}
    having = {task for task, names in stores.items() if store in names}
    if not having:
        there = sorted({name for names in stores.values() for name in names})
        raise StateError(
            f"no task of {where} has a store {store!r}; they have: {', '.join(there) or 'none'}"
        )
    topologies = {tasks[task][0] for task in having}
    lacking = [
        task
        for task, (topology, partition) in tasks.items()
        if topology in topologies
        and task not in having
        and (partitions is None or partition in partitions)
    ]
    if lacking:
        raise StateError(
            f"{where}: {', '.join(lacking)} has no store {store!r}, but {min(having)} of the same "
            "sub-topology has it; the task may be starting. Wait for it, or pass partitions "
            "without it"
        )
    return {task: place for task, place in tasks.items() if task in having}


def _stores_of(task: Path) -> list[str]:
    from kstore_core.discovery.registry import make_engine
    from kstore_core.state.contents import store_names

    return store_names(make_engine(_engine_of(task), None), task, ())


def _engine_of(task: Path) -> str:
    """Return the engine of a task directory; Kafka's RocksDB for a directory without stores."""
    from kstore_core.state.recognition import engine_of, recognised
    from kstore_core.system.lock import recorded_engine

    if recorded_engine(task) is None and not recognised(task):
        return "rocksdb"
    return engine_of(task)

"""Reads of a store of a Kafka Streams application from the state directories of its tasks."""

from __future__ import annotations

import os
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
from kstore_core.spark.runtime.server import on_server
from kstore_core.spec import StoreSpec
from kstore_core.types import Time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TaskReader", "plan_streams_dir", "read_streams_dir"]


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
    """Read a store from the state directory of a Kafka Streams application.

    The function reads the store of every task of the application. The application may run at the
    same time, because the function writes nothing and takes no locks. Each Spark task reads the
    store of one application task, as of the last commit before the Spark task started.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the store.
    path : path
        The directory ``state.dir/application.id``, which contains the task directories ``0_0``,
        ``0_1``, ``1_0``, …. Every worker must be able to read the directory at this path.
    spec : StoreSpec
        The spec of the store. The directory does not contain a spec.
    partitions : sequence of int, optional
        Read only the tasks with these partition numbers, which must exist. If None, read all tasks,
        and warn if there are gaps in the partition numbers.
    as_of, history, from_ts, to_ts, key, keys, prefix, columns, headers, timestamps
        The options of :func:`kstore_core.spark.read_store`. A key is looked up in every task,
        because the application may have its own partitioner.

    Returns
    -------
    DataFrame
        The columns that :func:`kstore_core.spark.read_store` returns, with ``task`` before
        ``partition``.

    Raises
    ------
    StateError
        There are no tasks; no task has the store; a task lacks the store, but another task of the
        same sub-topology has it; or a task in ``partitions`` does not exist.
    """
    wanted = keys_of(spec, key, keys)
    selection = select(spec, as_of, history, from_ts, to_ts, wanted, prefix_bytes(prefix))
    view = View(columns, partitions, headers, timestamps)
    place = os.path.abspath(path)  # noqa: PTH100 - links stay as they are
    return frame_of(spark, on_server(spark, plan_streams_dir, place, spec, selection, view))


def plan_streams_dir(path: str, spec: StoreSpec, selection: Selection, view: View) -> ReadPlan:
    """Return the plan of a :func:`read_streams_dir`."""
    found = local_path(path)
    if found is None:
        raise SpecError(
            f"{path!r} is not a directory of a file system. Pass the state directory of the Kafka "
            "Streams application, or a copy of it, on a disk that every worker can read"
        )
    where, partitions = Path(found), view.partitions
    tasks = _tasks_of(where, spec.name, partitions)
    numbers = {partition for _, partition in tasks.values()}
    if partitions is not None:
        missing = sorted(set(partitions) - numbers)
        if missing:
            raise StateError(
                f"{where} has no task of the store {spec.name!r} for the partitions "
                f"{', '.join(map(str, missing))}; the directory has the tasks {', '.join(tasks)}. "
                "Another instance of the application may have the missing tasks"
            )
        numbers = set(partitions)
    gaps = sorted(set(range(max(numbers, default=0))) - numbers) if partitions is None else []
    if gaps:
        warnings.warn(
            f"{where} has no tasks of the store {spec.name!r} for the partitions "
            f"{', '.join(map(str, gaps))}. These tasks are lost, or another instance of the "
            "application has them. The read returns only the tasks that the directory has. To get "
            "an error instead of this warning, pass the expected partitions as partitions=",
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
    """The reader that opens the store of a task directory."""

    spec: StoreSpec

    @contextmanager
    def open(self, shard: str) -> Iterator[Any]:
        """Open the store of the task directory ``shard`` as of its last commit, for reading."""
        from kstore_core import open_state
        from kstore_core.maintenance.rescale.tasks import engine_of_task
        from kstore_core.spark.runtime.engines import engine_on_worker
        from kstore_core.spark.shards.published import bare

        engine = engine_of_task(Path(shard))
        engine_on_worker(engine)
        with open_state(shard, engine=engine, read_only=True) as state:
            yield state.open(bare(self.spec))


def _tasks_of(
    where: Path, store: str, partitions: Sequence[int] | None
) -> dict[str, tuple[str, int]]:
    """Return the sub-topology and the partition of each task that has the store.

    Raise a StateError if no task has the store, or if a task lacks the store and another task of
    its sub-topology has it.
    """
    from kstore_core.maintenance.rescale.tasks import existing_tasks, stores_of_task

    tasks = existing_tasks(where)
    stores = {task: stores_of_task(where / task) for task in tasks}
    having = {task for task, names in stores.items() if store in names}
    if not having:
        there = sorted({name for names in stores.values() for name in names})
        raise StateError(
            f"no task in {where} has a store {store!r}; the tasks have these stores: "
            f"{', '.join(there) or 'none'}"
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
            f"{where}: the store {store!r} is missing in {', '.join(lacking)}, but task "
            f"{min(having)} of the same sub-topology has the store; a task without the store may "
            "be starting. Wait until all tasks have the store, or pass partitions without these "
            "tasks"
        )
    return {task: place for task, place in tasks.items() if task in having}

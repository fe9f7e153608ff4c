"""The function check_cluster, which checks that a Spark cluster can run kstore's tasks."""

from __future__ import annotations

import functools
import json
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kstore_core.errors import EngineUnavailableError, StateError
from kstore_core.spark.cluster import probe as cluster_probe
from kstore_core.spark.runtime.engines import check_shared_engine, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstore_core.spark.cluster.shared_root import Visit

__all__ = ["Worker", "check_cluster"]

_HOLD_S = 0.5
_NAMED = 5


class Worker(NamedTuple):
    """The machine and the Python of one Spark executor, as its tasks report them.

    Attributes
    ----------
    host : str
        The name of the machine.
    interpreter : str
        The path of the Python interpreter that runs the tasks.
    python, kstore, pyarrow : str
        The versions of Python, kstore and pyarrow.
    engines : list of str
        The names of the engines that can be loaded.
    scratch : str
        The directory in which shards are built. It is the directory of Python's ``tempfile``,
        which the environment variable ``TMPDIR`` can set.
    scratch_free_bytes : int
        The free space of that directory.
    open_files : int, optional
        The greatest number of open files of a process; None if there is no limit.
    tasks : int
        The number of the check's tasks that ran on the executor.
    """

    host: str
    interpreter: str
    python: str
    kstore: str
    pyarrow: str
    engines: list[str]
    scratch: str
    scratch_free_bytes: int
    open_files: int | None
    tasks: int


def check_cluster(
    spark: SparkSession,
    root: str | os.PathLike[str] | None = None,
    *,
    engine: str = "rocksdb",
    write: bool = True,
    tasks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Worker]:
    """Run a task in every slot of a Spark cluster, and check that it can use kstore and the root.

    Each task imports kstore and pyarrow, loads every engine, and writes a small store with
    ``engine`` to its directory for temporary files. If ``root`` is given, the task also reads and
    writes files in the root.

    Parameters
    ----------
    spark : SparkSession
        The session whose cluster is checked.
    root : path or address, optional
        The root of a store; no root is checked if None. The check finds out whether the path leads
        to the same directory on every machine. For this, each task reads a file that the driver
        wrote, and the driver reads a file that each task wrote. The files are removed afterwards.
    engine : str
        The name of the engine that the job will use.
    write : bool
        Pass False if the job only reads the root. The check then writes nothing to the root, and
        only checks that each task sees the newest version that the driver sees.
    tasks : int, optional
        The number of tasks; the number of cores that the executors have at present if None.
    storage_options : mapping, optional
        Options of an object store, as in :func:`kstore_core.spark.write_store`.

    Returns
    -------
    list of Worker
        One item for each executor, sorted by host. ``pandas.DataFrame(check_cluster(spark))``
        makes a table of the items.

    Raises
    ------
    EngineUnavailableError
        On some machine, kstore, pyarrow or the engine is missing or unusable, or the version of
        kstore differs from the driver's. The message names the hosts, and the packages to install.
    StateError
        The path of the root leads to different directories on different machines, or a task cannot
        write to the root.
    UnsupportedError
        The engine stores its data in one process.
    ValueError
        ``tasks`` is not an int, or is less than 1.
    """
    from kstore_core.spark.cluster.shared_root import visiting

    check_shared_engine(engine)
    if tasks is None:
        tasks = spark.sparkContext.defaultParallelism
    if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
        raise ValueError(f"tasks={tasks!r} is not an int from 1 on")
    if root is None:
        seen = _look(spark, engine, None, tasks)
        _refuse_software(seen)
    else:
        with visiting(root, storage_options, write=write) as visit:
            seen = _look(spark, engine, visit, tasks)
            _refuse_software(seen)
            _refuse_root(seen, visit)
    return _workers(seen)


def _look(
    spark: SparkSession, engine: str, visit: Visit | None, tasks: int
) -> list[dict[str, Any]]:
    """Run ``tasks`` tasks, which Spark spreads over the slots, and return their reports."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as F  # noqa: N812

    carried = None if visit is None else pickle.dumps(visit)
    # Send the module as code, because a worker may lack kstore.
    cloudpickle.register_pickle_by_value(cluster_probe)  # type: ignore[no-untyped-call]
    try:
        # Do not use Arrow, because a worker may lack pyarrow too.
        look = F.udf(
            functools.partial(cluster_probe.look, engine=engine, visit=carried, hold_s=_HOLD_S),
            "string",
            useArrow=False,
        )
        rows = spark.range(0, tasks, 1, tasks).select(look("id").alias("seen")).collect()
    finally:
        cloudpickle.unregister_pickle_by_value(cluster_probe)  # type: ignore[no-untyped-call]
    return [json.loads(row.seen) for row in rows]


def _refuse_software(seen: list[dict[str, Any]]) -> None:
    faults = _by_host((one, fault) for one in seen for fault in _software_faults(one))
    if faults:
        raise EngineUnavailableError(
            f"the cluster cannot run kstore's tasks. {faults}. Install what is missing for the "
            "Python named above; or ship an environment with spark.archives, and set "
            "PYSPARK_PYTHON to the interpreter in that environment"
        )


def _software_faults(one: dict[str, Any]) -> Iterator[str]:
    yield from one["faults"]
    here = version()
    if one["kstore"] not in (None, here):
        yield (
            f"the version of kstore is {one['kstore']}, and {here} on the driver; install the same "
            "version"
        )


def _refuse_root(seen: list[dict[str, Any]], visit: Visit) -> None:
    faults = _by_host((one, one["root"] or visit.from_the_driver(one["slot"])) for one in seen)
    if faults:
        raise StateError(
            f"the machines cannot all use {visit.root} as the same root. {faults}. Pass a root on "
            "a file system that every machine mounts at the same path, or a root in an object "
            "store"
        )


def _by_host(faults: Iterable[tuple[dict[str, Any], str | None]]) -> str:
    """Return a text with each fault, after the names of its hosts."""
    hosts: dict[str, set[str]] = {}
    for one, fault in faults:
        if fault is not None:
            hosts.setdefault(fault, set()).add(f"{one['host']} ({one['interpreter']})")
    return "; ".join(f"on {_some(sorted(where))}: {fault}" for fault, where in hosts.items())


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _workers(seen: list[dict[str, Any]]) -> list[Worker]:
    """Merge the reports of the tasks of each executor.

    The tasks of an executor have one parent process, by which they are recognised.
    """
    executors: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in seen:
        executors.setdefault((one["host"], one["daemon"]), []).append(one)
    return [
        Worker(**{name: first[name] for name in Worker._fields[:-1]}, tasks=1 + len(others))
        for _, (first, *others) in sorted(executors.items())
    ]

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
from kstore_core.spark.runtime.server import on_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kstore_core.spark.cluster.shared_root import Visit

__all__ = ["Worker", "check_cluster"]

_HOLD_S = 0.5
_NAMED = 5
_RANGE = 1_000_000  # more rows than any cluster has cores


class Worker(NamedTuple):
    """The properties of a Spark executor's machine and Python, which the executor's tasks report.

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
        The directory for temporary files, in which tasks build shards. Python's module
        ``tempfile`` chooses the directory; the environment variable ``TMPDIR`` can set the
        directory.
    scratch_free_bytes : int
        The free space in the directory ``scratch``, in bytes.
    open_files : int, optional
        The greatest number of files that a process may have open at the same time. None if there
        is no limit or the limit is unknown.
    tasks : int
        The number of tasks of the check that ran on the executor.
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
    """Check that the machines of a Spark cluster can run kstore's tasks and use a root.

    The check runs a Spark job. Each task of the job imports kstore and pyarrow, loads every engine,
    and writes a small store with ``engine`` to its machine's directory for temporary files. If
    ``root`` is given, each task also reads the root. If ``write`` is true, each task also writes a
    file to the root.

    Parameters
    ----------
    spark : SparkSession
        The session whose cluster is checked.
    root : path or address, optional
        The root of a store. If None, no root is checked. The path must lead to the same directory
        on every machine. To check this, each task reads a file that the driver wrote, and the
        driver reads the files that the tasks wrote. The check removes these files at its end. With
        Spark Connect, a task on the cluster replaces the driver.
    engine : str
        The name of the engine that your jobs will use.
    write : bool
        Pass False if your jobs only read the root. The check then writes nothing to the root. It
        only checks that each task sees the newest version that the driver sees.
    tasks : int, optional
        The number of tasks. If None, the number of partitions into which Spark divides a range of
        numbers. This number is the executors' present number of cores, unless a setting such as
        ``spark.default.parallelism`` sets another number.
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
        kstore differs from the driver's version. The message names the hosts, and the packages to
        install.
    StateError
        The path of the root leads to different directories on different machines, or a task cannot
        write to the root.
    UnsupportedError
        The engine keeps its data in one process, so no other Spark worker can read the data.
    ValueError
        ``tasks`` is not an int, or is less than 1.
    """
    from kstore_core.spark.cluster.shared_root import visiting

    check_shared_engine(engine)
    if tasks is None:
        tasks = _slots(spark)
    if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
        raise ValueError(f"tasks={tasks!r} must be an int of 1 or more")
    if root is None:
        seen = _look(spark, engine, None, tasks)
        _refuse_software(seen)
    else:
        with visiting(root, storage_options, write=write, spark=spark) as visit:
            seen = _look(spark, engine, visit, tasks)
            _refuse_software(seen)
            _refuse_root(seen, visit, spark)
    return _workers(seen)


def _slots(spark: SparkSession) -> int:
    """Return the number of partitions into which Spark divides a range.

    This number is usually the number of cores. The function computes a range to find the number,
    because Spark Connect has no ``sparkContext``.
    """
    from pyspark.sql import functions as F  # noqa: N812

    numbers = spark.range(_RANGE).select(F.spark_partition_id().alias("number"))
    (row,) = numbers.agg(F.max("number").alias("last")).collect()
    return 1 + int(row["last"])


def _look(
    spark: SparkSession, engine: str, visit: Visit | None, tasks: int
) -> list[dict[str, Any]]:
    """Run ``tasks`` tasks on the cluster, and return the report of each task."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as F  # noqa: N812

    carried = None if visit is None else pickle.dumps(visit)
    # A worker may lack kstore, so Spark must send the code of the module to the workers.
    cloudpickle.register_pickle_by_value(cluster_probe)  # type: ignore[no-untyped-call]
    try:
        # A worker may also lack pyarrow, so the function must not use Arrow.
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
            f"the cluster cannot run kstore's tasks. {faults}. Install these packages for the "
            "Python interpreters in this message. Or ship an environment with spark.archives, "
            "and set PYSPARK_PYTHON to the interpreter in that environment"
        )


def _software_faults(one: dict[str, Any]) -> Iterator[str]:
    yield from one["faults"]
    here = version()
    if one["kstore"] not in (None, here):
        yield (
            f"the version of kstore is {one['kstore']}, but the driver has the version {here}; "
            f"install the version {here}"
        )


def _refuse_root(
    seen: list[dict[str, Any]], visit: Visit, spark: SparkSession | None = None
) -> None:
    written = [one["slot"] for one in seen if one["root"] is None]
    unread = on_server(spark, visit.all_from_the_driver, written)
    faults = _by_host((one, one["root"] or unread[one["slot"]]) for one in seen)
    if faults:
        raise StateError(
            f"the root {visit.root} cannot be used on all machines. {faults}. Pass a root on a "
            "file system that every machine mounts at the same path, or a root in an object store"
        )


def _by_host(faults: Iterable[tuple[dict[str, Any], str | None]]) -> str:
    """Return a text that lists the faults and, for each fault, the hosts that reported it."""
    hosts: dict[str, set[str]] = {}
    for one, fault in faults:
        if fault is not None:
            hosts.setdefault(fault, set()).add(f"{one['host']} ({one['interpreter']})")
    return "; ".join(f"on {_some(sorted(where))}: {fault}" for fault, where in hosts.items())


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _workers(seen: list[dict[str, Any]]) -> list[Worker]:
    """Return one Worker for each executor, from the reports of the executor's tasks.

    Tasks with the same host and the same parent process belong to the same executor.
    """
    executors: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in seen:
        executors.setdefault((one["host"], one["daemon"]), []).append(one)
    return [
        Worker(**{name: first[name] for name in Worker._fields[:-1]}, tasks=1 + len(others))
        for _, (first, *others) in sorted(executors.items())
    ]

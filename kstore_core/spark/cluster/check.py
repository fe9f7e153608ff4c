"""check_cluster: a check that the machines of a Spark cluster can run kstore's tasks."""

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
    """The machine and Python of one executor, as reported by its tasks."""

    host: str
    interpreter: str  # the path of the tasks' Python
    python: str  # versions
    kstore: str
    pyarrow: str
    engines: list[str]  # that can be loaded
    scratch: str  # where shards are built: the directory of Python's tempfile, such as TMPDIR
    scratch_free_bytes: int
    open_files: int | None  # the limit of a process; None for no limit
    tasks: int  # the number of the probe's tasks


def check_cluster(
    spark: SparkSession,
    root: str | os.PathLike[str] | None = None,
    *,
    engine: str = "rocksdb",
    write: bool = True,
    tasks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Worker]:
    """Run a task in every slot of the cluster, and report its Python, engines and root.

    Each task imports kstore and pyarrow, loads every engine, writes a small store with ``engine``
    in its scratch space, and reads from and writes to the root.

    Parameters
    ----------
    spark : SparkSession
    root : path, optional
        The root of a store. To check that it is the same place for every machine, each task reads
        a file of the driver, and the driver reads a file of each task. The files are removed
        afterwards.
    engine : str
        The engine of the stores.
    write : bool
        False for a root that the job only reads: the check writes nothing to it, and compares the
        versions that each task sees.
    tasks : int, optional
        The number of tasks; by default the number of the executors' present cores.
    storage_options : mapping, optional
        Options of an object store, as in :func:`kstore_core.spark.write_store`.

    Returns
    -------
    list of Worker
        One for each executor, sorted by host. ``pandas.DataFrame(check_cluster(spark))`` makes a
        table.

    Raises
    ------
    EngineUnavailableError
        kstore, pyarrow or the engine is missing or unusable on a machine, or kstore has another
        version than here. The text names the hosts and the packages to install.
    StateError
        The root is not the same place for every machine, or may not be written to.
    UnsupportedError
        The engine stores its data in one process.
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
    """Return the reports of ``tasks`` tasks, spread over the slots."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as F  # noqa: N812

    carried = None if visit is None else pickle.dumps(visit)
    # By value: workers may lack kstore.
    cloudpickle.register_pickle_by_value(cluster_probe)  # type: ignore[no-untyped-call]
    try:
        # Without Arrow, which workers may also lack.
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
            f"the cluster cannot run kstore's tasks. {faults}. Install it for that Python, or ship "
            "an environment with spark.archives and let PYSPARK_PYTHON name its interpreter"
        )


def _software_faults(one: dict[str, Any]) -> Iterator[str]:
    yield from one["faults"]
    here = version()
    if one["kstore"] not in (None, here):
        yield f"kstore is {one['kstore']} there and {here} on the driver: install the same version"


def _refuse_root(seen: list[dict[str, Any]], visit: Visit) -> None:
    faults = _by_host((one, one["root"] or visit.from_the_driver(one["slot"])) for one in seen)
    if faults:
        raise StateError(
            f"{visit.root} is not the same place for all machines. {faults}. Pass a root on a file "
            "system that every machine mounts at the same path, or in an object store"
        )


def _by_host(faults: Iterable[tuple[dict[str, Any], str | None]]) -> str:
    """List each fault once, with its hosts."""
    hosts: dict[str, set[str]] = {}
    for one, fault in faults:
        if fault is not None:
            hosts.setdefault(fault, set()).add(f"{one['host']} ({one['interpreter']})")
    return "; ".join(f"on {_some(sorted(where))}: {fault}" for fault, where in hosts.items())


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def _workers(seen: list[dict[str, Any]]) -> list[Worker]:
    """Merge the reports of each executor, whose tasks share the process that forked them."""
    executors: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in seen:
        executors.setdefault((one["host"], one["daemon"]), []).append(one)
    return [
        Worker(**{name: first[name] for name in Worker._fields[:-1]}, tasks=1 + len(others))
        for _, (first, *others) in sorted(executors.items())
    ]

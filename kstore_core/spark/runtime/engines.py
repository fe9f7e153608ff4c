"""Checks that workers can share an engine's data, and that a worker can load the engine."""

from __future__ import annotations

import os
import socket
import sys

from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Engine
from kstore_core.errors import EngineUnavailableError, UnknownEngineError, UnsupportedError
from kstore_core.hints import EXTRAS, install

__all__ = ["check_shared_engine", "engine_on_worker", "this_worker", "version"]


def check_shared_engine(engine: str) -> None:
    """Raise UnsupportedError if only one process can read the engine's stores.

    The driver calls this function. Raises UnknownEngineError or EngineUnavailableError if the
    driver cannot load the engine.
    """
    capabilities = engine_class(engine).capabilities
    if capabilities.process_local or not capabilities.persistent:
        raise UnsupportedError(
            f"the engine {engine!r} keeps its data in the process of its writer, so no other Spark "
            "worker can read it; use engine='rocksdb'"
        )


def engine_on_worker(engine: str) -> type[Engine]:
    """Return the engine class of this name on the machine of a task.

    Raises EngineUnavailableError, which names the host and its Python, if the engine cannot be
    loaded on this machine.
    """
    try:
        return engine_class(engine)
    except (UnknownEngineError, EngineUnavailableError) as error:
        hint = f" ({install(engine)})" if engine in EXTRAS else ""
        raise EngineUnavailableError(
            f"the engine {engine!r} cannot be used on {this_worker()}: {error}. Every machine that "
            f"runs tasks needs the engine. Install the engine on each machine{hint}, or ship an "
            "environment with spark.archives; kstore_core.spark.check_cluster(spark) checks all "
            "machines"
        ) from error


def this_worker() -> str:
    """Return the host, the process and the Python interpreter of this process, for messages."""
    return f"{socket.gethostname()} (process {os.getpid()}, {sys.executable})"


def version() -> str:
    """Return the version of the package kstore, or ``unknown`` if the package is not installed."""
    from importlib import metadata

    try:
        return metadata.version("kstore")
    except metadata.PackageNotFoundError:
        return "unknown"

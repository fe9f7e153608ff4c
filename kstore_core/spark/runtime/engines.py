"""Checks of an engine: can workers share it (driver), and is it installed (task)."""

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
    """Refuse an engine whose stores only one process can read, with an UnsupportedError.

    For the driver. An UnknownEngineError or EngineUnavailableError if the driver does not have it.
    """
    capabilities = engine_class(engine).capabilities
    if capabilities.process_local or not capabilities.persistent:
        raise UnsupportedError(
            f"the engine {engine!r} keeps its data in the process of its writer, so no other Spark "
            "worker can read it; use engine='rocksdb'"
        )


def engine_on_worker(engine: str) -> type[Engine]:
    """Return the engine of this name, on the machine of a task.

    An EngineUnavailableError, with the host and its Python, if it cannot be loaded there.
    """
    try:
        return engine_class(engine)
    except (UnknownEngineError, EngineUnavailableError) as error:
        hint = f" ({install(engine)})" if engine in EXTRAS else ""
        raise EngineUnavailableError(
            f"the engine {engine!r} cannot be used on {this_worker()}: {error}. Every machine that "
            f"runs tasks needs it: install it there{hint}, or ship an environment "
            "with spark.archives; kstore_core.spark.check_cluster(spark) checks all of them"
        ) from error


def this_worker() -> str:
    """Return the host, process and interpreter of this code, for messages."""
    return f"{socket.gethostname()} (process {os.getpid()}, {sys.executable})"


def version() -> str:
    """Return the installed version of kstore; ``unknown`` if it is not installed as a package."""
    from importlib import metadata

    try:
        return metadata.version("kstore")
    except metadata.PackageNotFoundError:
        return "unknown"

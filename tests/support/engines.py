"""The engines that every suite runs on, and directories that outlive a close on each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore_core import StateDirectory, open_state
from kstore_core.discovery.registry import engine_class
from kstore_core.engine import Engine

ENGINES = ("memory", "lmdb", "rocksdb")


class Home:
    """One state directory on one engine, opened again and again by a test."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path = path
        self.engine = engine
        self._kept: Engine | None = engine_class(engine)() if engine == "memory" else None

    def open(self, **arguments: Any) -> StateDirectory:
        return open_state(self.path, engine=self._kept or self.engine, **arguments)


MakeHome = Callable[..., Home]

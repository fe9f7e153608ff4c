"""The memory engine, whose databases exist as long as the engine object."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine import Capabilities, Durability, Engine
from kstore_core.errors import EngineLockedError
from kstore_memory.database import MemoryDatabase, StoredRows

__all__ = ["MemoryEngine"]


class MemoryEngine(Engine):
    """The engine that stores rows in memory, with the semantics of the persistent engines.

    The engine object contains the databases. To open a store again with its rows, pass the same
    engine object to ``open_state``. Each call of ``open_state(engine="memory")`` creates a new
    engine object without rows.
    """

    name: ClassVar[str] = "memory"
    capabilities = Capabilities(persistent=False, process_local=True)

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._stored: dict[Path, StoredRows] = {}

    def stores(self, root: Path) -> list[str]:
        home = _home(root)
        return sorted(path.name for path in self._stored if path.parent == home)

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> MemoryDatabase:
        path = _home(root) / store
        if path not in self._stored:
            if read_only:
                raise FileNotFoundError(
                    f"this {self.name} engine has no store {store!r} for the state directory {root}"
                )
            self._stored[path] = StoredRows()
        stored = self._stored[path]
        if not read_only and stored.holder() is not None:
            raise EngineLockedError(
                f"the store {store!r} of {root} is already open for writing; close the store, or "
                "open it with read_only=True",
                pid=os.getpid(),
            )
        return MemoryDatabase(path, stored, self._stored, read_only=read_only)


def _home(root: Path) -> Path:
    return Path(root).absolute() / "memory"

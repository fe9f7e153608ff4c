"""The memory engine. Its databases exist as long as the engine object."""

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

    The engine object owns the databases. To find the committed rows again, pass the same object to
    ``open_state``. ``open_state(engine="memory")`` makes a new object each time.
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
                raise FileNotFoundError(f"no store {store!r} of {root} in this {self.name} engine")
            self._stored[path] = StoredRows()
        stored = self._stored[path]
        if not read_only and stored.holder() is not None:
            raise EngineLockedError(
                f"the store {store!r} of {root} is open for writing; close it first",
                pid=os.getpid(),
            )
        return MemoryDatabase(path, stored, self._stored, read_only=read_only)


def _home(root: Path) -> Path:
    return Path(root).absolute() / "memory"

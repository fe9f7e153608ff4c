"""The engine: all rows in memory, every batch a line of a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from kstore_core.engine import Capabilities, Durability, Engine
from kstore_sample import log
from kstore_sample.database import SampleDatabase


class SampleEngine(Engine):
    """Stores in ``<root>/sample/<store>/``; for those that fit into memory."""

    name: ClassVar[str] = "sample"
    capabilities = Capabilities(
        persistent=True, process_local=False, durability=("process", "power")
    )

    def stores(self, root: Path) -> list[str]:
        return sorted(path.parent.name for path in (root / "sample").glob(f"*/{log.FILE}"))

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> SampleDatabase:
        path = root / "sample" / store
        if not read_only:
            writing = log.Log(path, synced=durability == "power")
            return SampleDatabase.opened(path, writing.replay(), writing)
        if not (path / log.FILE).exists():
            raise FileNotFoundError(f"the engine 'sample' has no store {store!r} in {root}")
        return SampleDatabase.opened(path, log.read(path / log.FILE)[0], None)

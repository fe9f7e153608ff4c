"""The engine: options, what it can do, and where its databases lie."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from kstore_core.engine import (
    DURABILITY_LEVELS,
    Capabilities,
    Durability,
    Engine,
    EngineOptions,
)
from kstore_core.errors import SpecError
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.opening import is_database, open_for_reading, open_for_writing
from kstore_rocksdb.options import RocksDBOptions

__all__ = ["RocksDBEngine"]

_FOLDER = "rocksdb"


class RocksDBEngine(Engine):
    """Databases in ``<root>/rocksdb/<store>/``, where Kafka Streams has them."""

    name: ClassVar[str] = "rocksdb"
    capabilities: ClassVar[Capabilities] = Capabilities(
        persistent=True,
        process_local=False,
        durability=DURABILITY_LEVELS,
        checkpoint=True,
        bulk_load=True,
    )
    options_type: ClassVar[type[EngineOptions]] = RocksDBOptions
    options: RocksDBOptions

    def stores(self, root: Path) -> list[str]:
        """The directories under ``<root>/rocksdb`` that hold a database, sorted."""
        folder = root / _FOLDER
        if not folder.is_dir():
            return []
        return sorted(entry.name for entry in folder.iterdir() if is_database(entry))

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open ``<root>/rocksdb/<store>``."""
        if store in ("", ".", "..") or "/" in store or "\0" in store:
            raise SpecError(f"{store!r} cannot be the name of a store: it is not one directory")
        path = root / _FOLDER / store
        if not path.resolve().is_relative_to(root.resolve()):
            raise SpecError(
                f"{path} is a link to {path.resolve()}, outside of the state directory; move the "
                "store into it, or open the directory that the store lies in"
            )
        return self.open_directory(path, durability=durability, read_only=read_only)

    def open_directory(
        self, path: Path, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open the database in ``path`` itself, which is how a segment of a window store is found.

        Raises what :meth:`open` raises.
        """
        if durability not in DURABILITY_LEVELS:
            raise SpecError(
                f"durability is one of {', '.join(DURABILITY_LEVELS)}, not {durability!r}"
            )
        opener = open_for_reading if read_only else open_for_writing
        return opener(path, self.options, durability)

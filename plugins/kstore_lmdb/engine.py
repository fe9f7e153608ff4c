"""The LMDB engine."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine import (
    Capabilities,
    Durability,
    Engine,
    EngineOptions,
)
from kstore_core.engine.capabilities import check_durability
from kstore_core.engine.handles import DEFAULT
from kstore_core.engine.paths import store_path
from kstore_core.system.interrupts import uninterrupted
from kstore_lmdb.database import LMDBDatabase
from kstore_lmdb.environment import acquire, release
from kstore_lmdb.errors import translating
from kstore_lmdb.files import (
    ASIDE,
    DATA,
    check_format,
    clean_up,
    is_database,
    is_remains,
    lost,
    make,
    page_faults,
)
from kstore_lmdb.locks import DataLock
from kstore_lmdb.native import Mode, open_native
from kstore_lmdb.options import FORMATS, LMDBOptions
from kstore_lmdb.transaction import EMPTY

__all__ = ["LMDBEngine"]

_FOLDER = "lmdb"


class LMDBEngine(Engine):
    """The engine that stores each database as an LMDB environment in ``<root>/lmdb/<store>/``."""

    name: ClassVar[str] = "lmdb"
    capabilities = Capabilities(
        persistent=True,
        process_local=False,
        max_key_bytes=FORMATS["0.9"].max_key_bytes,
        durability=("process", "power"),
    )
    options_type: ClassVar[type[EngineOptions]] = LMDBOptions
    options: LMDBOptions

    def __init__(self, options: Mapping[str, Any] | EngineOptions | None = None) -> None:
        super().__init__(options)
        self.capabilities = dataclasses.replace(
            type(self).capabilities, max_key_bytes=self.options.format.max_key_bytes
        )

    def stores(self, root: Path) -> list[str]:
        """Return the sorted names of the stores, including stores whose data file is lost."""
        folder = root / _FOLDER
        if not folder.is_dir():
            return []
        return sorted(
            entry.name
            for entry in folder.iterdir()
            if ASIDE not in entry.name and (is_database(entry) or is_remains(entry))
        )

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> LMDBDatabase:
        """Open the environment in ``<root>/lmdb/<store>``, or create the environment."""
        check_durability(durability)
        path = store_path(root, _FOLDER, store, reserved=ASIDE)
        if read_only:
            return self._open_for_reading(path)
        return self._open_for_writing(path, Mode(writable=True, synced=durability == "power"))

    def _open_for_reading(self, path: Path) -> LMDBDatabase:
        """Open an environment for reading only. Its format may differ from the options."""
        if not is_database(path):
            if is_remains(path):
                raise lost(path)
            raise FileNotFoundError(
                errno.ENOENT, "no LMDB environment in this directory", str(path)
            )
        with translating("open it for reading", path):
            return _opened(path, self.options, Mode(writable=False), None)

    def _open_for_writing(self, path: Path, mode: Mode) -> LMDBDatabase:
        with translating("open it", path):
            if not is_database(path):
                make(path, self._fill)
            check_format(path, self.options.format)
            lock = DataLock(path, path / DATA)
            try:
                clean_up(path)
                return _opened(path, self.options, mode, lock)
            except BaseException:
                lock.release()
                raise

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """Return a message for each damaged page. LMDB is not used, because it might crash."""
        path = store_path(root, _FOLDER, store, reserved=ASIDE)
        with translating("check its pages", path):
            return iter(page_faults(path) if is_database(path) else ())

    def _fill(self, directory: Path) -> None:
        """Create an environment in ``directory`` with the two named databases of every store."""
        native = open_native(
            directory, self.options, self.options.format, Mode(writable=True, synced=True)
        )
        try:
            for name in (DEFAULT, EMPTY):
                native.open_db(name.encode())
        finally:
            native.close()


def _opened(path: Path, options: LMDBOptions, mode: Mode, lock: DataLock | None) -> LMDBDatabase:
    database = None
    try:
        with uninterrupted():
            shared = acquire(path, options, mode)
            try:
                database = LMDBDatabase(path, shared, options.format.max_key_bytes, lock)
            except BaseException:
                release(shared)
                raise
    except BaseException:
        if database is not None:
            database.close()
        raise
    return database

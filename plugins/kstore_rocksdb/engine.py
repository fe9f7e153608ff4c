"""The engine RocksDB, with its options, capabilities and directories."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from rocksdict import Cache

from kstore_core.engine import (
    DURABILITY_LEVELS,
    Capabilities,
    Durability,
    Engine,
    EngineOptions,
)
from kstore_core.engine.capabilities import check_durability
from kstore_core.engine.paths import store_path
from kstore_core.errors import EngineError, SpecError
from kstore_core.system.directories import sync_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_rocksdb import locks
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.errors import translating
from kstore_rocksdb.files.manifest import file_faults
from kstore_rocksdb.opening import (
    is_database,
    open_for_reading,
    open_for_writing,
    was_database,
)
from kstore_rocksdb.options import RocksDBOptions

__all__ = ["RocksDBEngine"]

_FOLDER = "rocksdb"

_SEGMENT = re.compile(r"[.:-][0-9]+")
_OURS = (".kstore-", ".kstore.lock")

_DOOMED = ".kstore-dropped~"
"""The directory of children that are being deleted. No store has this name. It is outside the
store's directory, because Kafka Streams opens no store with anything but segments in it."""

_LONGEST = 255 - len(".1700000000000")
"""The longest name of a store with children: a file system allows 255 bytes per name."""


class RocksDBEngine(Engine):
    """The engine whose databases have the same directories as in Kafka Streams.

    These are ``<root>/rocksdb/<store>/`` and ``<root>/<store>/<child>/``. All databases of an
    engine object share one block cache.
    """

    name: ClassVar[str] = "rocksdb"
    capabilities = Capabilities(
        persistent=True,
        process_local=False,
        durability=DURABILITY_LEVELS,
        checkpoint=True,
        bulk_load=True,
        children=True,
    )
    options_type: ClassVar[type[EngineOptions]] = RocksDBOptions
    options: RocksDBOptions

    def stores(self, root: Path) -> list[str]:
        """Return the directories under ``<root>/rocksdb`` that contain a database, sorted."""
        folder = root / _FOLDER
        if not folder.is_dir():
            return []
        return sorted(entry.name for entry in folder.iterdir() if is_database(entry))

    def recognises(self, root: Path) -> bool:
        """Return True if the directory of a store contains a database, or files of one."""
        return any(
            was_database(folder)
            for above in _folders(root)
            if above.name != _DOOMED
            for folder in _folders(above)
        )

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open ``<root>/rocksdb/<store>``."""
        path = store_path(root, _FOLDER, store)
        return self.open_directory(path, durability=durability, read_only=read_only)

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """Return a fault for each file that differs from the manifest, and for a cut manifest."""
        path = store_path(root, _FOLDER, store) if child is None else _child(root, store, child)
        return iter(file_faults(path) if is_database(path) else ())

    def parents(self, root: Path) -> list[str]:
        """Return the sorted names of the directories in ``<root>`` that have segments or are empty.

        An empty directory is included, because Kafka Streams creates the directory of a store
        before its first segment.
        """
        if not root.is_dir():
            return []
        with os.scandir(root) as entries:
            return sorted(
                entry.name
                for entry in entries
                if _is_directory(entry)
                and entry.name not in (_FOLDER, _DOOMED)
                and _is_parent(root, Path(entry))
            )

    def make_parent(self, root: Path, store: str, *, durability: Durability = "process") -> bool:
        """Make the directory ``<root>/<store>``."""
        folder = _parent(root, store)
        with translating("make its directory", folder):
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            if durability == "power":
                sync_directory(root)
        return is_new

    def drop_parent(self, root: Path, store: str) -> bool:
        """Remove the directory ``<root>/<store>`` if it is empty."""
        try:
            _parent(root, store).rmdir()
        except OSError:
            return False
        return True

    def children(self, root: Path, store: str) -> list[str]:
        """Return the sorted names of the segments, which are directories in ``<root>/<store>``.

        Raises
        ------
        SpecError
            No store of this name can have children.
        """
        folder = _parent(root, store)
        if not folder.is_dir():
            return []
        try:
            return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        except PermissionError as error:
            raise EngineError(
                f"the directory {folder} of the segments of {store!r} may not be read: {error}; "
                "run this as a user who may read it, or give this user the right"
            ) from error

    def open_child(
        self,
        root: Path,
        store: str,
        child: str,
        *,
        durability: Durability = "process",
        read_only: bool = False,
    ) -> RocksDBDatabase:
        """Open ``<root>/<store>/<child>``."""
        path = _child(root, store, child)
        return self.open_directory(path, durability=durability, read_only=read_only)

    def drop_child(self, root: Path, store: str, child: str) -> None:
        """Delete ``<root>/<store>/<child>``; it is moved first, so that no part stays there."""
        path = _child(root, store, child)
        if not path.is_dir():
            raise KeyError(child)
        with uninterrupted(), locks.claim(path):
            doomed = root / _DOOMED
            shutil.rmtree(doomed, ignore_errors=True)  # left by a process that was killed
            doomed.mkdir(exist_ok=True)
            path.rename(doomed / child)
            shutil.rmtree(doomed)

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        """Rename ``<root>/<store>/<child>``."""
        path, renamed = _child(root, store, child), _child(root, store, name)
        if not path.is_dir():
            raise KeyError(child)
        if renamed.exists():
            raise FileExistsError(f"{renamed} exists; {path} keeps its name")
        with uninterrupted(), locks.claim(path):
            path.rename(renamed)

    def open_directory(
        self, path: Path, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open the database in the directory ``path``, which may be a segment.

        Raises the same errors as :meth:`open`.
        """
        check_durability(durability)
        opener = open_for_reading if read_only else open_for_writing
        return opener(path, self.options, self._cache, durability)

    @cached_property
    def _cache(self) -> Cache:
        return Cache(self.options.block_cache_bytes)

    def __reduce__(self) -> tuple[type[RocksDBEngine], tuple[RocksDBOptions]]:
        return type(self), (self.options,)  # a cache belongs to its process


def _folders(folder: Path) -> list[Path]:
    """Return the subdirectories of a directory, or none if it is missing or unreadable."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry) for entry in entries if _is_directory(entry)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False


def _is_parent(root: Path, folder: Path) -> bool:
    """Return True if a directory has segments or is empty, so it is that of a store with segments.

    A directory with the name of a segment is a segment without a database if the creation of the
    database was interrupted.
    """
    try:
        is_empty = True
        for entry in folder.iterdir():
            is_empty = False
            of_store = _SEGMENT.fullmatch(entry.name.removeprefix(folder.name))
            if is_database(entry) or (of_store and entry.is_dir()):
                return True
    except PermissionError:
        return True  # it may be one; `children` raises a clear error for it
    # Excluded: kstore's own directories, and those named like a store without segments.
    ours = folder.name.startswith(_OURS) or is_database(root / _FOLDER / folder.name)
    return is_empty and not ours


def _parent(root: Path, store: str) -> Path:
    if store == _FOLDER:
        raise SpecError(
            f"a store with segments cannot be named {store!r}: {root / store} contains the stores "
            "without segments. Use another name"
        )
    if len(store) > _LONGEST:
        raise SpecError(
            f"the name of a store with segments must have at most {_LONGEST} characters, because "
            f"the names of its directories add a time; {store!r} has {len(store)}. Use a shorter "
            "name"
        )
    return store_path(root, "", store)


def _child(root: Path, store: str, child: str) -> Path:
    _parent(root, store)
    return store_path(root, "", store, child)

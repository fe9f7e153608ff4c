"""The RocksDB engine."""

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
    remains,
    was_database,
)
from kstore_rocksdb.options import RocksDBOptions

__all__ = ["RocksDBEngine"]

_FOLDER = "rocksdb"

_SEGMENT = re.compile(r"[.:-][0-9]+")
_OURS = (".kstore-", ".kstore.lock")

_DOOMED = ".kstore-dropped~"
"""The directory that contains segments while they are deleted. No store has this name.

The directory is outside the directories of the stores, because Kafka Streams cannot open a store
whose directory contains anything except segments.
"""

_LONGEST = 255 - len(".1700000000000")
"""The length of the longest name of a store with segments.

A file system allows 255 bytes per name. The name of a segment is the store's name and a time.
"""


class RocksDBEngine(Engine):
    """The engine that stores each database in the directory that Kafka Streams would use.

    The database of a store is in ``<root>/rocksdb/<store>/``, and the database of a segment is in
    ``<root>/<store>/<child>/``. All databases of an engine object share one block cache.
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
        """Return the sorted names of the stores, which are in ``<root>/rocksdb``.

        A store that has lost its file ``CURRENT`` is among them, so that a read of the store raises
        an error.
        """
        folder = root / _FOLDER
        if not folder.is_dir():
            return []
        return sorted(
            entry.name for entry in folder.iterdir() if is_database(entry) or remains(entry)
        )

    def recognises(self, root: Path) -> bool:
        """Return True if ``root`` contains a RocksDB database, or files of a damaged one."""
        return any(
            was_database(folder)
            for above in _folders(root)
            if above.name != _DOOMED
            for folder in _folders(above)
        )

    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open the database in ``<root>/rocksdb/<store>``, or create the database."""
        path = store_path(root, _FOLDER, store)
        return self.open_directory(path, durability=durability, read_only=read_only)

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """Yield a message for each file that differs from the manifest. Check the manifest, too."""
        path = store_path(root, _FOLDER, store) if child is None else _child(root, store, child)
        if is_database(path):
            yield from file_faults(path)
        elif found := remains(path):
            yield f"the file CURRENT is missing, so the rows in {len(found)} files cannot be read"

    def parents(self, root: Path) -> list[str]:
        """Return the sorted names of the stores in ``root`` whose directories contain segments.

        An empty directory counts as a store, because Kafka Streams creates the directory of a store
        before it creates the first segment.
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
        """Create the directory ``<root>/<store>``. Return True if it did not exist."""
        folder = _parent(root, store)
        with translating("create its directory", folder):
            is_new = not folder.is_dir()
            folder.mkdir(parents=True, exist_ok=True)
            if durability == "power":
                sync_directory(root)
        return is_new

    def drop_parent(self, root: Path, store: str) -> bool:
        """Remove the directory ``<root>/<store>`` if it is empty. Return True if it was removed."""
        try:
            _parent(root, store).rmdir()
        except OSError:
            return False
        return True

    def children(self, root: Path, store: str) -> list[str]:
        """Return the sorted names of the segments, which are the directories in ``<root>/<store>``.

        Raises
        ------
        SpecError
            A store with segments cannot have this name.
        """
        folder = _parent(root, store)
        if not folder.is_dir():
            return []
        try:
            return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        except PermissionError as error:
            raise EngineError(
                f"the directory {folder} of the segments of {store!r} cannot be read: {error}; "
                "run this program as a user who may read the directory, or give this user the right"
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
        """Open the database of a segment in ``<root>/<store>/<child>``, or create the database."""
        path = _child(root, store, child)
        return self.open_directory(path, durability=durability, read_only=read_only)

    def drop_child(self, root: Path, store: str, child: str) -> None:
        """Delete the segment ``<root>/<store>/<child>``.

        The segment is first moved to another directory. So a crash never leaves a part of the
        segment in the directory of the store.
        """
        path = _child(root, store, child)
        if not path.is_dir():
            raise KeyError(child)
        with uninterrupted(), locks.claim(path):
            doomed = root / _DOOMED
            shutil.rmtree(doomed, ignore_errors=True)  # a process that was killed may have left it
            doomed.mkdir(exist_ok=True)
            path.rename(doomed / child)
            shutil.rmtree(doomed)

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        """Rename the segment ``<root>/<store>/<child>`` to ``<root>/<store>/<name>``."""
        path, renamed = _child(root, store, child), _child(root, store, name)
        if not path.is_dir():
            raise KeyError(child)
        if renamed.exists():
            raise FileExistsError(
                f"cannot rename {path} to {renamed}, because {renamed} exists already"
            )
        with uninterrupted(), locks.claim(path):
            path.rename(renamed)

    def open_directory(
        self, path: Path, *, durability: Durability = "process", read_only: bool = False
    ) -> RocksDBDatabase:
        """Open the database in the directory ``path``, or create the database.

        The exceptions are those of :meth:`open`.
        """
        check_durability(durability)
        opener = open_for_reading if read_only else open_for_writing
        return opener(path, self.options, self._cache, durability)

    @cached_property
    def _cache(self) -> Cache:
        return Cache(self.options.block_cache_bytes)

    def __reduce__(self) -> tuple[type[RocksDBEngine], tuple[RocksDBOptions]]:
        return type(self), (self.options,)  # the block cache cannot be pickled


def _folders(folder: Path) -> list[Path]:
    """Return the subdirectories of a directory. Return [] if the directory cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry) for entry in entries if _is_directory(entry)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # for example, links in a circle
        return False


def _is_parent(root: Path, folder: Path) -> bool:
    """Return True if ``folder`` may be the directory of a store with segments.

    Such a directory contains a segment or is empty. A directory with the name of a segment counts
    as a segment even without a database, because the creation of the database may have been
    interrupted.
    """
    try:
        is_empty = True
        for entry in folder.iterdir():
            is_empty = False
            of_store = _SEGMENT.fullmatch(entry.name.removeprefix(folder.name))
            if is_database(entry) or (of_store and entry.is_dir()):
                return True
    except PermissionError:
        return True  # `children` raises a clear error for this directory
    # Exclude kstore's own directories, and any directory named like a store without segments.
    ours = folder.name.startswith(_OURS) or is_database(root / _FOLDER / folder.name)
    return is_empty and not ours


def _parent(root: Path, store: str) -> Path:
    if store == _FOLDER:
        raise SpecError(
            f"a store with segments cannot be named {store!r}, because the directory "
            f"{root / store} "
            "contains the stores without segments. Use another name"
        )
    size = len(os.fsencode(store))
    if size > _LONGEST:
        raise SpecError(
            f"the name {store!r} has {size} bytes, but the name of a store with segments can have "
            f"at most {_LONGEST}, because kstore adds a time to the name of each segment's "
            "directory. Use a shorter name"
        )
    return store_path(root, "", store)


def _child(root: Path, store: str, child: str) -> Path:
    _parent(root, store)
    return store_path(root, "", store, child)

"""Open RocksDB databases. One handle may write to a database while others read it."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from rocksdict import AccessType, Cache, Rdict

from kstore_core.engine import Durability
from kstore_core.engine.handles import DEFAULT
from kstore_core.errors import CorruptionError
from kstore_core.system.directories import sync_directory
from kstore_core.system.interrupts import uninterrupted
from kstore_core.system.scratch import Scratch
from kstore_rocksdb import forks, locks
from kstore_rocksdb.database import RocksDBDatabase
from kstore_rocksdb.errors import is_locked, reraise, translating
from kstore_rocksdb.files.manifest import check_manifest
from kstore_rocksdb.files.readonly import with_scratch
from kstore_rocksdb.files.wal import logs_beyond_gap, set_aside
from kstore_rocksdb.loading import clean_up
from kstore_rocksdb.options import NativeOptions, RocksDBOptions

__all__ = ["is_database", "open_for_reading", "open_for_writing", "remains", "was_database"]

_CURRENT = "CURRENT"


def is_database(path: Path) -> bool:
    """Return True if the directory contains a RocksDB database, which has a file ``CURRENT``."""
    return (path / _CURRENT).is_file()


def was_database(path: Path) -> bool:
    """Return True if the directory contains a database, or files of a damaged database."""
    if is_database(path):
        return True
    try:
        return any(
            entry.suffix == ".sst" or entry.name.startswith("MANIFEST-") for entry in path.iterdir()
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def remains(path: Path) -> list[str]:
    """Return the names of the files with rows in a directory that has no file ``CURRENT``.

    The creation of a database writes ``CURRENT`` before any row, so such a directory contains a
    database that has lost the file.
    """
    if is_database(path):
        return []
    try:
        found = sorted(
            entry.name
            for entry in path.iterdir()
            if entry.suffix == ".sst" or (entry.suffix == ".log" and entry.stat().st_size)
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [] if is_database(path) else found  # another process may have just created it


def open_for_writing(
    path: Path, options: RocksDBOptions, cache: Cache, durability: Durability
) -> RocksDBDatabase:
    """Open the database in ``path`` for writing, or create the database.

    A failed open removes the directories that it has created.

    Raises
    ------
    EngineLockedError
        Another process or handle has the database open for writing.
    CorruptionError
        Files of the database are damaged, or there are files with rows but no file ``CURRENT``.
    """
    forks.begin()
    claimed = locks.claim(path)
    made: list[Path] = []
    root = database = None
    try:
        with uninterrupted():
            made += [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
            _refuse_remains(path)
            path.mkdir(parents=True, exist_ok=True)
            clean_up(path)
            check_manifest(path)
            set_aside(path)
            native = NativeOptions(options, cache)
            root, families = _open(path, native, AccessType.read_write())
            if durability == "power":  # RocksDB itself syncs only the directory ``path``
                for folder in (path.parent, path.parent.parent):
                    sync_directory(folder)
            database = RocksDBDatabase(
                path, root, families, native, durability=durability, on_close=claimed.release
            )
    except BaseException as error:
        if database is not None:
            database.close()
        elif root is not None:
            root.close()
        claimed.release()
        if not is_locked(error):  # if it is locked, another process is creating this database
            _remove(path, made)
        if isinstance(error, Exception):
            reraise(error, "open it", path)
        raise
    return database


def open_for_reading(
    path: Path, options: RocksDBOptions, cache: Cache, durability: Durability
) -> RocksDBDatabase:
    """Open the database in ``path`` as of now for reading only. Nothing is written to ``path``.

    Raises
    ------
    FileNotFoundError
        The directory contains no database, or the database was dropped meanwhile.
    CorruptionError
        Files of the database are damaged, or there are files with rows but no file ``CURRENT``.
    """
    forks.begin()
    if not is_database(path):
        with suppress(FileNotFoundError):  # the database has just been dropped
            _refuse_remains(path)
        raise _none_at(path)
    native = NativeOptions(options, cache, read_only=True)

    def use(scratch: Scratch) -> RocksDBDatabase:
        check_manifest(path)
        for log in logs_beyond_gap(scratch.path):
            log.unlink()
        root, families = _open(scratch.path, native, AccessType.read_only(False))
        return RocksDBDatabase(
            path,
            root,
            families,
            native,
            durability=durability,
            scratch=scratch.path,
            on_close=scratch.remove,
        )

    try:
        with translating("open it for reading", path):
            return with_scratch(path, use)
    except CorruptionError as error:
        if path.exists():
            raise
        raise _none_at(path) from error  # the database was dropped meanwhile


def _none_at(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "no RocksDB database in this directory", str(path))


def _open(path: Path, native: NativeOptions, access: AccessType) -> tuple[Rdict, list[str]]:
    """Open a database, and return its handle and the names of its column families.

    The call names each column family, because the library ``rocksdict`` would otherwise ignore the
    options of the family.
    """
    families = Rdict.list_cf(str(path)) if is_database(path) else [DEFAULT]
    root = Rdict(
        str(path),
        native.database(table_files=sum(file.suffix == ".sst" for file in path.iterdir())),
        {name: native.family(name) for name in families},
        access,
    )
    return root, families


def _refuse_remains(path: Path) -> None:
    """Raise CorruptionError if ``path`` contains files with rows, but no file ``CURRENT``.

    RocksDB would create an empty database in such a directory.
    """
    found = remains(path)
    if found:
        raise CorruptionError(
            f"rocksdb database {path} has lost its CURRENT file, but still has rows in "
            f"{len(found)} files ({found[0]}, …). Nothing was changed. Put the file back from a "
            "copy, or rename the directory and restore the store from its changelog"
        )


def _remove(path: Path, made: list[Path]) -> None:
    """Remove the directories ``made`` that a failed open has created, if there is no database."""
    if path in made and not is_database(path):
        shutil.rmtree(path, ignore_errors=True)
        for folder in made[1:]:
            try:
                folder.rmdir()
            except OSError:
                return

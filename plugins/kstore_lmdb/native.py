"""Open environments of the Python library ``lmdb``. Their maps fit in the address space."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

import lmdb

from kstore_lmdb.options import LMDBFormat, LMDBOptions

__all__ = ["Mode", "added_bytes", "database_names", "open_native"]

_SMALLEST_MAP_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class Mode:
    """The mode of an open environment. If ``synced`` is True, each commit is synced to the disk."""

    writable: bool
    synced: bool = False


def open_native(
    path: Path, options: LMDBOptions, form: LMDBFormat, mode: Mode, *, lock: bool = True
) -> lmdb.Environment:
    """Open an environment.

    If the process has little address space, the map is smaller than the option ``map_size_bytes``.
    LMDB's mode ``writemap`` is not used, because in this mode a full disk kills the process.
    """
    size = -(-options.map_size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    while True:
        try:
            return lmdb.Environment(
                str(path),
                map_size=size,
                readonly=not mode.writable,
                create=False,
                sync=mode.synced,
                metasync=mode.synced,
                max_readers=options.max_readers,
                max_dbs=options.max_namespaces + 1,
                lock=lock,
                lib_version=form.library,
            )
        except lmdb.MemoryError:
            if size <= _SMALLEST_MAP_BYTES:
                raise
            size = max(size // 4, _SMALLEST_MAP_BYTES)


def database_names(transaction: lmdb.Transaction[bytes]) -> set[str]:
    """Return the names of the databases that a transaction shows.

    LMDB 1.0 stores a name with a zero byte at its end, which the result does not contain.
    """
    return {name.rstrip(b"\0").decode() for name in transaction.cursor().iternext(values=False)}


def added_bytes(size: int) -> int:
    """Return the number of bytes by which a map of ``size`` bytes can grow.

    The result is ``size``, or a quarter of ``size`` if there is less address space, or 0.
    """
    for more in (size, size // 4):
        more = max(more, _SMALLEST_MAP_BYTES) // mmap.PAGESIZE * mmap.PAGESIZE
        if _can_be_reserved(more):
            return more
    return 0


def _can_be_reserved(size: int) -> bool:
    """Return True if the process has ``size`` bytes of address space left."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ).close()
    except (OSError, OverflowError, ValueError):
        return False
    return True

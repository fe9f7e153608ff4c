"""The open RocksDB databases of this process, which are closed when the process exits.

A forked process has the handles of RocksDB, but not its background threads. In a forked process a
flush or a close would hang, and writes would be lost silently. So a forked process never frees a
native object of RocksDB.
"""

from __future__ import annotations

import ctypes
import os

from kstore_core.engine.handles import OpenDatabases
from kstore_core.errors import ForkedHandleError
from kstore_rocksdb import locks

__all__ = ["DATABASES", "begin"]

DATABASES = OpenDatabases()
_used = False
_inherited = False


def begin() -> None:
    """Check that this process can open a database. Call this before each open.

    Raises
    ------
    ForkedHandleError
        This process was forked after its parent had opened a database, so it does not have the
        threads of RocksDB.
    """
    global _used
    DATABASES.notice_fork()
    if _inherited:
        raise ForkedHandleError(
            f"process {os.getpid()} was forked from a process that had opened RocksDB, so RocksDB "
            "would hang in this process. Start processes with 'spawn' or 'forkserver' "
            "(multiprocessing.set_start_method), or fork before the first store is opened"
        )
    _used = True


@DATABASES.after_fork
def _inherit() -> None:
    """Prevent RocksDB's destructors from running when a forked process exits.

    The destructors join threads that the forked process does not have, so the process would end by
    SIGSEGV. This also happens if all databases were closed before the fork. Therefore this function
    makes ``exit`` call ``_exit`` first, if the C library is glibc.
    """
    global _inherited
    _inherited = _inherited or _used
    if _inherited:
        library = ctypes.CDLL(None)
        if hasattr(library, "on_exit"):  # glibc
            library.on_exit(library._exit, None)


DATABASES.after_fork(locks.forget)

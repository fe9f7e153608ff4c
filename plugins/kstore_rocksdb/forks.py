"""The open databases of this process. They are closed at its exit, but not in a forked child.

A forked child has the handles of RocksDB but not its background threads. There, a flush or a close
would hang, and writes would be lost silently. So a forked child frees no native object, even if
Python frees the object that owns it.
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
    """Prepare to open a native database.

    Raises
    ------
    ForkedHandleError
        A parent of this forked process has opened a database: RocksDB's threads are missing here.
    """
    global _used
    DATABASES.notice_fork()
    if _inherited:
        raise ForkedHandleError(
            f"process {os.getpid()} was forked from one that had opened RocksDB, and RocksDB would "
            "hang here. Start processes with 'spawn' or 'forkserver' "
            "(multiprocessing.set_start_method), or fork before the first store is opened"
        )
    _used = True


@DATABASES.after_fork
def _inherit() -> None:
    """Make ``exit`` call ``_exit`` first, so that RocksDB's destructors do not run in a child.

    They join threads that the child does not have, so the child would end by SIGSEGV, even if all
    databases were closed before the fork.
    """
    global _inherited
    _inherited = _inherited or _used
    if _inherited:
        library = ctypes.CDLL(None)
        if hasattr(library, "on_exit"):  # glibc
            library.on_exit(library._exit, None)


DATABASES.after_fork(locks.forget)

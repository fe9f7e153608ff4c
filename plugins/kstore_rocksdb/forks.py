"""The open databases of this process: closed when it exits, abandoned after a fork.

RocksDB does not survive a fork: a child has the handles but no background threads, so flushing and
closing hang, and writes are lost silently. Therefore a forked child frees no native object, not
even when Python collects the owner.
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
    """Make ``exit`` call ``_exit`` first: RocksDB's destructors join threads that a child lacks.

    Otherwise the child would end by SIGSEGV, even if all databases were closed before the fork.
    """
    global _inherited
    _inherited = _inherited or _used
    if _inherited:
        library = ctypes.CDLL(None)
        if hasattr(library, "on_exit"):  # glibc
            library.on_exit(library._exit, None)


DATABASES.after_fork(locks.forget)

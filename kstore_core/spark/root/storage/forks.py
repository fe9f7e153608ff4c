"""A check that a process did not inherit native clients by a fork.

obstore and hdfs-native have threads, which a fork does not copy. A request in the child would wait
forever.
"""

from __future__ import annotations

import os

from kstore_core.errors import ForkedHandleError

__all__ = ["check_not_forked"]

_has_threads = False
_is_forked = False


def check_not_forked(address: str) -> None:
    """Record in memory that this process uses a native client.

    Raise a ForkedHandleError if this process was forked from one that has used such a client.
    """
    global _has_threads
    if _is_forked:
        raise ForkedHandleError(
            f"this process cannot use {address}, because its parent process used an object store "
            "or HDFS before the fork, and a fork does not copy the threads of such a client. Start "
            "the process with multiprocessing.get_context('spawn')"
        )
    _has_threads = True


def _after_fork() -> None:
    global _is_forked
    _is_forked = _has_threads


os.register_at_fork(after_in_child=_after_fork)

"""Other processes, for what only they can see."""

import os
from collections.abc import Callable


def outcome(use: Callable[[], object]) -> str:
    """The repr of what ``use`` returns, or the class of its error."""
    try:
        return repr(use())
    except BaseException as error:  # noqa: BLE001
        return type(error).__name__


def in_a_child(use: Callable[[], object]) -> str:
    """Fork, call ``use`` in the child, and return its `outcome` there."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, outcome(use).encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = pipe.read()
    _, status = os.waitpid(pid, 0)
    return result if status == 0 else f"ended with status {status}"

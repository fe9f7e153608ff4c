"""Other processes, for what only they can see."""

import os
from collections.abc import Callable


def in_a_child(use: Callable[[], object]) -> str:
    """Fork, call ``use`` in the child, and tell what came of it: a repr, or an error's class."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = repr(use())
        except BaseException as error:  # noqa: BLE001
            result = type(error).__name__
        os.write(write, result.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        result = pipe.read()
    _, status = os.waitpid(pid, 0)
    return result if status == 0 else f"ended with status {status}"

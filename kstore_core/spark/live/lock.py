"""The lock of a root, which allows only one stream at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from kstore_core.errors import StateError
from kstore_core.spark.live.layout import Layout, LiveLayout

__all__ = ["StreamLock", "locked"]


class StreamLock:
    """The lock of a live directory, which only one stream can hold.

    :func:`stream_into` holds the lock while its query runs. The sink ``format("kstore")`` holds the
    lock while it commits an epoch. The constructor takes the lock, and raises StateError if another
    stream holds the lock. The lock is released by :meth:`release` or at the end of the process.
    """

    def __init__(self, layout: LiveLayout) -> None:
        layout.path.mkdir(parents=True, exist_ok=True)
        path = layout.path / "stream.lock"
        self._fd: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 64, 0).decode(errors="replace").strip()
            self.release()
            raise StateError(
                f"another stream writes to {layout.path.parent}"
                + (f" (process {holder})" if holder else "")
                + "; stop that stream first, or use another root"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            # If a forked process has a copy of fd, the close of fd does not release the lock.
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """Return a context manager that holds the lock of a live directory during a ``with`` block.

    On an object store there is no lock, because the commits of the shards exclude a second writer.
    """
    lock = StreamLock(layout) if isinstance(layout, LiveLayout) else None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()

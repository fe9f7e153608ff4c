"""The memory that this process has for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["STATUS", "peak_bytes"]

STATUS = Path("/proc/self/status")
"""Where Linux tells it."""


def _own_bytes() -> int:
    status = STATUS.read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@contextmanager
def peak_bytes() -> Iterator[Callable[[], int]]:
    """Watch this process, and tell afterwards the most bytes that it had for itself.

    Files that are mapped into memory are left out: the system drops their pages if it needs memory.
    """
    peak, ended = 0, threading.Event()

    def sample() -> None:
        nonlocal peak
        while not ended.wait(0.002):
            peak = max(peak, _own_bytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield lambda: peak
    finally:
        ended.set()
        sampler.join()

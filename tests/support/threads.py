"""Threads that run beside a test."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def running(*calls: Callable[[], object]) -> Iterator[None]:
    """Run each call in a thread beside a with block, and check that all of them return."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)
    assert not [thread for thread in threads if thread.is_alive()], "a thread does not end"


def run_all(*calls: Callable[[], object]) -> None:
    """Run each call in a thread of its own, and check that all of them return."""
    with running(*calls):
        pass


@contextmanager
def repeating(call: Callable[[int], object]) -> Iterator[None]:
    """Call with 0, 1, 2 and so on in a thread, until the with block ends."""
    over = threading.Event()

    def repeat() -> None:
        for number in itertools.count():
            if over.is_set():
                break
            call(number)

    with running(repeat):
        try:
            yield
        finally:
            over.set()

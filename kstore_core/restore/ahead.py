"""An iterator whose next element is made while the current element is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

__all__ = ["made_ahead"]

_T = TypeVar("_T")


def made_ahead(elements: Iterator[_T]) -> Generator[_T, None, None]:
    """Yield the elements of an iterator. Another thread makes the next element meanwhile.

    This helps if both threads release the GIL for most of the time. If no thread can be started,
    for example while the interpreter ends, the calling thread makes all elements.

    Parameters
    ----------
    elements : iterator
        An iterator without None. It must not take a lock that the calling thread may hold. If it
        raises an error, this iterator raises the error at the same place.
    """
    wanted: SimpleQueue[bool] = SimpleQueue()
    made: SimpleQueue[tuple[_T | None, BaseException | None]] = SimpleQueue()

    def make() -> None:
        while wanted.get():
            try:
                made.put((next(elements, None), None))
            except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
                made.put((None, error))

    thread = Thread(target=make, name="kstore-ahead", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        yield from elements
        return
    try:
        wanted.put(True)
        while True:
            element, error = made.get()
            try:
                if error is not None:
                    raise error
            finally:
                del error  # Its traceback refers to this frame.
            if element is None:
                return
            wanted.put(True)
            yield element
    finally:
        wanted.put(False)
        thread.join()

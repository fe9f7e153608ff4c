"""An iterator whose next element is made while the current element is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["made_ahead"]

_T = TypeVar("_T")


def made_ahead(elements: Iterator[_T]) -> Generator[_T, None, None]:
    """Yield the elements of an iterator. Another thread makes the next element meanwhile.

    This helps if both threads release the GIL for most of the time.

    Parameters
    ----------
    elements : iterator
        An iterator without None. It must not take a lock that the calling thread may hold. If it
        raises an error, this iterator raises the error at the same place.
    """
    with ThreadPoolExecutor(1, "kstore-ahead") as executor:
        coming = executor.submit(next, elements, None)
        while (element := coming.result()) is not None:
            coming = executor.submit(next, elements, None)
            yield element

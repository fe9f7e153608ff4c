# cython: language_level=3
"""Who is told of the changes that leave a cache, and of which he is still to be told."""

from collections import deque

from kstore_core.layers.current_record cimport OpenRecord, CurrentRecord

__all__ = ["FlushListener"]


cdef class FlushListener:
    """A listener's changes, in their order.

    Parameters
    ----------
    current_record : CurrentRecord
        Where the record of a change is while it is told.

    Attributes
    ----------
    listener : callable or None
        ``listener(key, new, old)``.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self._untold = deque()

    def listen(self, listener):
        """Have ``listener(key, new, old)`` told of all changes from now on; None ends it."""
        self.listener = listener
        if listener is None:
            self._untold.clear()

    cdef int add(self, list changes) except -1:
        """Changes that are to be told: ``(key, new, old, context)``, None for no record."""
        self._untold.extend(changes)
        return 0

    cdef int forget(self) except -1:
        """Tell nothing of what is still to be told."""
        self._untold.clear()
        return 0

    cdef int tell(self) except -1:
        """Tell what is to be told by now; gives 1 where what the listener wrote is to be told, too.

        Where the listener raises, the change is told again.
        """
        cdef Py_ssize_t left = len(self._untold)
        if self._telling:  # he writes, and so flushes
            return 0
        self._telling = True
        try:
            while left and self._untold:  # what he writes may be flushed at once, without an end
                left -= 1
                change = self._untold.popleft()
                key, new, old, context = change
                told = OpenRecord(self._current_record, context)
                try:
                    told.enter()
                    self.listener(key, new, old)
                except BaseException:
                    if self.listener is not None:
                        self._untold.appendleft(change)
                    raise
                finally:
                    told.leave()
        finally:
            self._telling = False
        return 1 if self._untold else 0

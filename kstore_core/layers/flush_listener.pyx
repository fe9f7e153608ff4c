# cython: language_level=3
"""The queue of flushed changes that a cache's listener has not seen yet."""

from collections import deque

from kstore_core.layers.current_record cimport OpenRecord, CurrentRecord

__all__ = ["FlushListener"]


cdef class FlushListener:
    """A listener's changes, in their order.

    Parameters
    ----------
    current_record : CurrentRecord
        Has the record of a change while the listener is called.

    Attributes
    ----------
    listener : callable or None
        ``listener(key, new, old)``.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self._untold = deque()

    def listen(self, listener):
        """Call ``listener(key, new, old)`` for every later change; None ends it."""
        self.listener = listener
        if listener is None:
            self._untold.clear()

    cdef int add(self, list changes) except -1:
        """Queue changes: ``(key, new, old, context)``, None for no record."""
        self._untold.extend(changes)
        return 0

    cdef int forget(self) except -1:
        """Clear the queue."""
        self._untold.clear()
        return 0

    cdef int tell(self) except -1:
        """Call the listener for the changes queued so far; return 1 if it has queued more.

        Where the listener raises, the change stays queued.
        """
        cdef Py_ssize_t left = len(self._untold)
        if self._telling:  # the listener writes, and so flushes
            return 0
        self._telling = True
        try:
            while left and self._untold:  # its writes may be flushed at once, without an end
                left -= 1
                change = self._untold.popleft()
                key, new, old, context = change
                record = OpenRecord(self._current_record, context)
                try:
                    record.enter()
                    self.listener(key, new, old)
                except BaseException:
                    if self.listener is not None:
                        self._untold.appendleft(change)
                    raise
                finally:
                    record.leave()
        finally:
            self._telling = False
        return 1 if self._untold else 0

# cython: language_level=3
"""A cache's listener, and the queue of flushed changes that it was not called for yet."""

from collections import deque

from kstore_core.layers.current_record cimport OpenRecord, CurrentRecord

__all__ = ["FlushListener"]


cdef class FlushListener:
    """Calls a listener for changes in their order.

    Parameters
    ----------
    current_record : CurrentRecord
        Set to the record of a change during its call.

    Attributes
    ----------
    listener : callable or None
        ``listener(key, new, old)``.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self._queue = deque()

    def listen(self, listener):
        """Call ``listener(key, new, old)`` for every later change; None ends it."""
        self.listener = listener
        if listener is None:
            self._queue.clear()

    cdef int add(self, list changes) except -1:
        """Queue changes: ``(key, new, old, context)``, None for no record."""
        self._queue.extend(changes)
        return 0

    cdef int clear(self) except -1:
        """Clear the queue."""
        self._queue.clear()
        return 0

    cdef int notify(self) except -1:
        """Call the listener for the changes queued so far; return 1 if it has queued more.

        If the listener raises, its change stays queued.
        """
        cdef Py_ssize_t left = len(self._queue)
        if self._calling:  # the listener writes, and so flushes
            return 0
        self._calling = True
        try:
            while left and self._queue:  # changes that the listener's own writes add wait
                left -= 1
                change = self._queue.popleft()
                key, new, old, context = change
                record = OpenRecord(self._current_record, context)
                try:
                    record.enter()
                    self.listener(key, new, old)
                except BaseException:
                    if self.listener is not None:
                        self._queue.appendleft(change)
                    raise
                finally:
                    record.leave()
        finally:
            self._calling = False
        return 1 if self._queue else 0

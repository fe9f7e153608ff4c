# cython: language_level=3
"""The listener of a cache, and the queue of flushed changes that the listener has not seen yet."""

from collections import deque

from kstore_core.layers.current_record cimport OpenRecord, CurrentRecord

__all__ = ["FlushListener"]


cdef class FlushListener:
    """A queue of flushed changes. A listener is called for each change, in order.

    Parameters
    ----------
    current_record : CurrentRecord
        The object that knows the current input record. During a call of the listener, the current
        record is the input record of the change.

    Attributes
    ----------
    listener : callable or None
        The listener, which is called as ``listener(key, new, old)``; None if there is no listener.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self._queue = deque()

    def listen(self, listener):
        """Call ``listener(key, new, old)`` for every later change. None removes the listener."""
        self.listener = listener
        if listener is None:
            self._queue.clear()

    cdef int add(self, list changes) except -1:
        """Append changes ``(key, new, old, context)``. The context is an input record or None."""
        self._queue.extend(changes)
        return 0

    cdef int clear(self) except -1:
        """Clear the queue."""
        self._queue.clear()
        return 0

    cdef int notify(self) except -1:
        """Call the listener for each queued change. Return 1 if changes remain in the queue.

        If the listener raises an exception, the change stays in the queue. The listener may write.
        A write may queue more changes, which wait for the next call of this method.
        """
        cdef Py_ssize_t left = len(self._queue)
        if self._calling:  # The listener has written, and this is the flush of its write.
            return 0
        self._calling = True
        try:
            while left and self._queue:  # Changes that the listener queues wait for the next call.
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

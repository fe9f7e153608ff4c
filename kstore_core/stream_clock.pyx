# cython: language_level=3, cdivision=True
"""The stream time of a store.

Stream time is the greatest time of the records that a store has received. A typed store compares
the time of each record with the store's stream time, in the order of arrival. The store drops a
late record before the record reaches a layer, a changelog or the engine.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)
from libc.stdint cimport int64_t

__all__ = ["START", "StreamClock", "Turn"]

cdef extern from "Python.h":
    int PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int interruptible
    ) nogil

START = -1  # stream time before the first record, as in Kafka Streams

cdef enum:
    ACQUIRED = 1        # PY_LOCK_ACQUIRED


cdef class Turn:
    """A reentrant lock of one thread, like ``threading.RLock``.

    Compiled code takes and releases it without a Python call. A signal interrupts a wait for the
    lock. :meth:`end` must follow each :meth:`take`, also after an exception.
    """

    def __cinit__(self):
        self._lock = PyThread_allocate_lock()
        if self._lock is NULL:
            raise MemoryError("no memory for a lock")

    def __dealloc__(self):
        if self._lock is not NULL:
            PyThread_free_lock(self._lock)

    cdef bint try_take(self) noexcept:
        """Take the lock if no other thread holds it. Return False if another thread does."""
        cdef long me = PyThread_get_thread_ident()
        if self._depth == 0 or self._owner != me:
            if not PyThread_acquire_lock(self._lock, NOWAIT_LOCK):
                return False
            self._owner = me
        self._depth += 1
        return True

    cdef int take(self) except -1:
        """Take the lock, or wait for it."""
        return 0 if self.try_take() else self.wait()

    cdef int wait(self) except -1:
        """Wait for the lock, and take it. Raise the exception of a signal's handler."""
        cdef int status
        while True:
            with nogil:
                status = PyThread_acquire_lock_timed(self._lock, -1, True)
            if status == ACQUIRED:
                break
            PyErr_CheckSignals()
        self._owner = PyThread_get_thread_ident()
        self._depth = 1
        return 0

    cdef int end(self) except -1:
        """Release the lock, once for each time that this thread has taken it."""
        if self._depth == 0 or self._owner != PyThread_get_thread_ident():
            raise RuntimeError("a thread releases a lock that it does not hold")
        self._depth -= 1
        if self._depth == 0:
            PyThread_release_lock(self._lock)
        return 0

    def __enter__(self):
        self.take()
        return self

    def __exit__(self, kind, error, trace):
        self.end()


cdef class StreamClock:
    """The stream time of one store.

    Parameters
    ----------
    retention_ms : int
        The retention (ms). A record is late if its time is less than stream time minus the
        retention.
    observed : int
        The stream time at the start (ms).

    Attributes
    ----------
    observed : int
        The stream time in milliseconds since the epoch; -1 before the first record.
    horizon : int
        The earliest time of a record that is not late, ``observed - retention_ms``.
    held : bool
        True if the horizon is fixed; see :meth:`hold`.
    turn : Turn
        The lock for these times. A thread must hold the lock from the moment when it reads the
        times until it has written the record or changed the times.
    dropped_late : int
        The number of late records that were dropped since the store was opened.
    """

    def __cinit__(self, int64_t retention_ms, int64_t observed=-1):
        self.retention_ms = retention_ms
        self.observed = observed
        self.horizon = observed - retention_ms
        self.held = False
        self.turn = Turn()
        self.dropped_late = 0

    def hold(self):
        """Fix the horizon at its present time until the store is closed.

        Call this method before you process records in an order that differs from their order of
        arrival. With a fixed horizon, the order does not change which records are late. Stream time
        still advances, and a commit still stores stream time.
        """
        self.held = True

    cpdef void advance(self, int64_t timestamp) noexcept:
        """Set stream time to this time (ms), if the time is later than stream time."""
        if timestamp > self.observed:
            self.observed = timestamp
            if not self.held:
                self.horizon = timestamp - self.retention_ms

    cpdef void rewind(self, int64_t observed) noexcept:
        """Set stream time back to an earlier value, after the write of a record has failed."""
        self.observed = observed
        if not self.held:
            self.horizon = observed - self.retention_ms

    cpdef bint accepts(self, int64_t timestamp) noexcept:
        """Return True if a record with this time is not late.

        If the record is late, return False and count it as dropped.
        """
        if timestamp < self.horizon:
            self.dropped_late += 1
            return False
        return True

    cpdef bint accepts_segment(self, int64_t timestamp, int64_t interval_ms) noexcept:
        """Return True if the segment of this time has not expired.

        If the segment has expired, return False and count a dropped record.

        Window and session stores drop a record only if its segment has expired, as in Kafka
        Streams. If a record is older than the horizon but belongs to the segment of the horizon,
        the store writes the record, but no read returns it.
        """
        if timestamp >= self.horizon:
            return True
        if timestamp / interval_ms < self.horizon / interval_ms:
            self.dropped_late += 1
            return False
        return True

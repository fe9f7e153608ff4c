# cython: language_level=3
"""Measurements of a store: the number of calls, the times of some calls, and the open iterators.

The wrapper of a function passes on the caller's C array of arguments, because a tuple of arguments
would be slower.
"""

from cpython.object cimport PyObject
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

from kstore_core.layers.current_record cimport CurrentRecord

__all__ = ["Lateness", "Latency", "OpenIterators", "Operation", "metered", "metered_scan"]

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    object PyCFunction_NewEx(PyMethodDef *, object, object)
    object PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *)

cdef enum:
    SECOND = 1_000_000_000
    # The width of a window in seconds. As in Kafka, a metric covers two windows, the current and
    # the last.
    WINDOW = 30


cdef inline long long monotonic() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * SECOND + now.tv_nsec


cdef inline long long wall_millis() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <long long>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef class Latency:
    """Durations with their mean, maximum and minimum over the last 30 to 60 seconds.

    The parameter ``now`` of the methods is the time of a monotonic clock in ns. If ``now`` is None,
    the method reads the clock.
    """

    def __cinit__(self):
        self._begun = monotonic()

    cdef int _turn(self, long long now) except -1:
        """Begin a new window if the current window has ended."""
        cdef long long windows = (now - self._begun) // (<long long>WINDOW * SECOND)
        if windows > 0:
            self._begun += windows * WINDOW * SECOND
            self._sums[1] = self._sums[0] if windows == 1 else 0
            self._counts[1] = self._counts[0] if windows == 1 else 0
            self._most[1] = self._most[0]
            self._least[1] = self._least[0]
            self._sums[0] = self._counts[0] = 0
        return 0

    cdef int add(self, long long amount, long long now) except -1:
        self._turn(now)
        if not self._counts[0] or amount > self._most[0]:
            self._most[0] = amount
        if not self._counts[0] or amount < self._least[0]:
            self._least[0] = amount
        self._counts[0] += 1
        self._sums[0] += amount
        return 0

    def record(self, long long amount, now=None):
        """Add a duration."""
        self.add(amount, monotonic() if now is None else now)

    def read(self, now=None):
        """Return the mean, the maximum and the minimum, or None if there are no durations."""
        cdef long long count
        self._turn(monotonic() if now is None else now)
        count = self._counts[0] + self._counts[1]
        if not count:
            return None
        which = [index for index in range(2) if self._counts[index]]
        return (
            (self._sums[0] + self._sums[1]) / count,
            max([self._most[index] for index in which]),
            min([self._least[index] for index in which]),
        )


cdef class Operation:
    """The number and the durations of the calls of an operation, such as put.

    Several methods may count as the same operation.

    Parameters
    ----------
    sample_every : int
        One in ``sample_every`` calls is timed, beginning with the first call.

    Attributes
    ----------
    count : int
        The number of all calls.
    latency : Latency
        The durations of the timed calls in ns.
    """

    def __cinit__(self, long long sample_every=1):
        self._every = sample_every
        self._left = 1
        self.latency = Latency()

    def record(self, long long duration_ns):
        """Count a call with a duration that the caller has measured."""
        self.count += 1
        self.latency.add(duration_ns, monotonic())


cdef class Lateness:
    """The end-to-end latency of writes: the ms from an input record's timestamp to the write.

    Parameters
    ----------
    current_record : CurrentRecord
        The object that returns the input record of a write.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self.latency = Latency()


cdef class Call:
    """A method, and the operation under which its calls are counted."""

    def __cinit__(self, Operation operation not None, function not None):
        self.operation = operation
        self.function = function


cdef class LateCall(Call):
    """A method that writes. Its end-to-end latency is also measured."""

    cdef Lateness lateness


cdef class ScanCall(Call):
    """A method that returns a scan. Its duration lasts until the scan ends."""

    cdef OpenIterators iterators


cdef object call(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef Call this = <Call>self
    cdef Operation operation = this.operation
    cdef long long begun
    operation.count += 1
    operation._left -= 1
    if operation._left:
        return PyObject_Vectorcall(<PyObject *>this.function, args, count, names)
    operation._left = operation._every
    begun = monotonic()
    result = PyObject_Vectorcall(<PyObject *>this.function, args, count, names)
    sample(this, begun)
    return result


cdef int sample(Call this, long long begun) except -1:
    """Add the duration of a call that has just ended to the measurements."""
    cdef long long now = monotonic()
    cdef Lateness lateness
    this.operation.latency.add(now - begun, now)
    if isinstance(this, LateCall):
        lateness = (<LateCall>this).lateness
        context = lateness._current_record.now()
        if context is not None and context.timestamp is not None:
            lateness.latency.add(wall_millis() - <long long>context.timestamp, now)
    return 0


cdef object scan(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef ScanCall this = <ScanCall>self
    this.operation.count += 1
    result = PyObject_Vectorcall(<PyObject *>this.function, args, count, names)
    result.watch(OpenIterator(this.iterators, this.operation))
    return result


cdef PyMethodDef _CALL
_CALL.ml_name = b"metered"
_CALL.ml_meth = <void *>call
_CALL.ml_flags = METH_FASTCALL | METH_KEYWORDS
_CALL.ml_doc = NULL

cdef PyMethodDef _SCAN
_SCAN.ml_name = b"metered_scan"
_SCAN.ml_meth = <void *>scan
_SCAN.ml_flags = METH_FASTCALL | METH_KEYWORDS
_SCAN.ml_doc = NULL


def metered(Operation operation not None, function not None, Lateness lateness=None):
    """Return a function that calls ``function``, and counts and times the calls.

    Parameters
    ----------
    operation : Operation
        The operation under which the calls are counted.
    function : callable
        The function to call. The returned function takes the same arguments.
    lateness : Lateness, optional
        The end-to-end latency of a function that writes; None for a function that only reads.
    """
    cdef LateCall late
    if lateness is None:
        return PyCFunction_NewEx(&_CALL, Call(operation, function), None)
    late = LateCall(operation, function)
    late.lateness = lateness
    return PyCFunction_NewEx(&_CALL, late, None)


def metered_scan(Operation operation not None, function not None, OpenIterators iterators not None):
    """Return a function that calls ``function``, which must return a Scan, and counts the calls.

    The duration of a call lasts until its scan ends.
    """
    cdef ScanCall this = ScanCall(operation, function)
    this.iterators = iterators
    return PyCFunction_NewEx(&_SCAN, this, None)


cdef class OpenIterators:
    """The open iterators of a store.

    Attributes
    ----------
    duration : Latency
        The durations of the iterators that have ended, in ns.
    """

    def __cinit__(self):
        self._since = {}
        self.duration = Latency()

    def __len__(self):
        return len(self._since)

    @property
    def oldest_ms(self):
        """The time at which the oldest open iterator was opened, in ms since the epoch, or 0."""
        return next(iter(list(self._since.values())), 0)


cdef class OpenIterator:
    """An object that a scan keeps until its end. While it exists, the scan counts as open."""

    def __cinit__(self, OpenIterators all not None, Operation operation not None):
        self._all = all
        self._operation = operation
        self._begun = monotonic()
        all._since[id(self)] = wall_millis()

    def __del__(self):
        cdef long long now = monotonic()
        self._all._since.pop(id(self), None)
        self._all.duration.add(now - self._begun, now)
        self._operation.latency.add(now - self._begun, now)

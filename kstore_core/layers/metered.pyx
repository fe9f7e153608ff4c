# cython: language_level=3
"""What measures a store: calls are counted, one in so many is timed, iterators are watched.

A call is passed on as it came, in the caller's own array of arguments, so that counting costs less
than making a tuple of them would.
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
    WINDOW = 30         # seconds; figures are of the window that runs and the one before, as Kafka's


cdef inline long long monotonic() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * SECOND + now.tv_nsec


cdef inline long long wall_millis() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <long long>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef class Latency:
    """Durations of the last 30 to 60 seconds: their mean, the greatest and the least.

    Methods take ``now``, nanoseconds of a monotonic clock; left out, it is read.
    """

    def __cinit__(self):
        self._begun = monotonic()

    cdef int _turn(self, long long now) except -1:
        """Begin a new window where the one that runs is over."""
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
        """Add one."""
        self.add(amount, monotonic() if now is None else now)

    def read(self, now=None):
        """The mean, the greatest and the least; None where there is none."""
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
    """The calls of one operation, which may be those of several methods.

    Parameters
    ----------
    sample_every : int
        One call in so many is timed, the first of them first.

    Attributes
    ----------
    count : int
        All of them.
    latency : Latency
        Of those that were timed, nanoseconds.
    """

    def __cinit__(self, long long sample_every=1):
        self._every = sample_every
        self._left = 1
        self.latency = Latency()

    def record(self, long long duration_ns):
        """Add a call that was timed by its caller."""
        self.count += 1
        self.latency.add(duration_ns, monotonic())


cdef class Lateness:
    """How long after their records' times writes are made, milliseconds: from end to end.

    Parameters
    ----------
    current_record : CurrentRecord
        Where the record is.
    """

    def __cinit__(self, CurrentRecord current_record not None):
        self._current_record = current_record
        self.latency = Latency()


cdef class Call:
    """A method and the operation that its calls are counted as."""

    def __cinit__(self, Operation operation not None, function not None):
        self.operation = operation
        self.function = function


cdef class LateCall(Call):
    """A method that writes."""

    cdef Lateness lateness


cdef class ScanCall(Call):
    """A method that gives a scan."""

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
    """Time a call that has just ended."""
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
    """The function, counted: a callable that passes its arguments on.

    Parameters
    ----------
    operation : Operation
    function : callable
    lateness : Lateness, optional
        Of a function that writes.
    """
    cdef LateCall late
    if lateness is None:
        return PyCFunction_NewEx(&_CALL, Call(operation, function), None)
    late = LateCall(operation, function)
    late.lateness = lateness
    return PyCFunction_NewEx(&_CALL, late, None)


def metered_scan(Operation operation not None, function not None, OpenIterators iterators not None):
    """The function, which gives a Scan, counted; the duration is that until the scan's end."""
    cdef ScanCall this = ScanCall(operation, function)
    this.iterators = iterators
    return PyCFunction_NewEx(&_SCAN, this, None)


cdef class OpenIterators:
    """The iterators that are open.

    Attributes
    ----------
    duration : Latency
        Of those that have ended, nanoseconds.
    """

    def __cinit__(self):
        self._since = {}
        self.duration = Latency()

    def __len__(self):
        return len(self._since)

    @property
    def oldest_ms(self):
        """When the oldest one was opened, milliseconds since the epoch; 0 where there is none."""
        return next(iter(list(self._since.values())), 0)


cdef class OpenIterator:
    """Lives as long as an iterator is open; the scan that it watches lets go of it."""

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

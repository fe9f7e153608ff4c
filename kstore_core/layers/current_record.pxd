from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


cdef extern from "Python.h":
    int PyContextVar_Get(object var, PyObject *otherwise, PyObject **value) except -1


cdef enum Stage:
    FRESH   # not entered yet
    OPEN
    ENDED   # left in its own context: only copies of that context still have it
    PASSED  # left in another context, or under a later record: lookups skip it


cdef class OpenRecord:
    cdef CurrentRecord _current_record
    cdef OpenRecord _below
    cdef object _context
    cdef object _token
    cdef Stage _stage


cdef class CurrentRecord:
    cdef object _var            # ContextVar of OpenRecord or None
    cdef str _where
    cdef Py_ssize_t _alive      # OpenRecords in memory; at 0 the variable is not read

    cdef OpenRecord _top(self)
    cdef object _ended(self, OpenRecord record)

    cdef inline object now(self):
        """The record of the calling task or thread, even an ended one; or None."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        return None if top is None else top._context

    cdef inline object of_write(self):
        """The input record of a write, or None; an ended record is a StateError."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        if top is None:
            return None
        if top._stage == ENDED and top._context is not None:
            self._ended(top)
        return top._context

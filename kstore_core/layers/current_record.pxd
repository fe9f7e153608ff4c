from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


cdef extern from "Python.h":
    int PyContextVar_Get(object var, PyObject *otherwise, PyObject **value) except -1


cdef enum Stage:
    FRESH   # enter was not called yet
    OPEN    # enter was called, but leave was not called yet
    ENDED   # leave was called in the context of enter; only copies of the context have the record
    PASSED  # leave was called in another context or inside a later record; lookups skip the record


cdef class OpenRecord:
    cdef CurrentRecord _current_record
    cdef OpenRecord _below
    cdef object _context
    cdef object _begins
    cdef object _ends
    cdef object _token
    cdef Stage _stage


cdef class CurrentRecord:
    cdef object _var            # ContextVar of OpenRecord or None
    cdef str _where
    cdef Py_ssize_t _alive      # the number of OpenRecords; at 0, there is no need to read _var

    cdef OpenRecord _top(self)
    cdef object _ended(self, OpenRecord record)

    cdef inline object now(self):
        """Return the record of this task or thread, or None. The record's block may have ended."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        return None if top is None else top._context

    cdef inline object of_write(self):
        """Return the input record for a write, or None. Raise StateError if its block has ended."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        if top is None:
            return None
        if top._stage == ENDED and top._context is not None:
            self._ended(top)
        return top._context

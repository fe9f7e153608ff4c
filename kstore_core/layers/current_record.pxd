from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


cdef extern from "Python.h":
    int PyContextVar_Get(object var, PyObject *otherwise, PyObject **value) except -1


cdef enum Stage:
    FRESH   # not entered yet
    OPEN
    ENDED   # left where it was entered: only a copy of that context still has it
    PASSED  # left elsewhere, or beneath a later one: passed over wherever it is found


cdef class OpenRecord:
    cdef CurrentRecord _current_record
    cdef OpenRecord _below
    cdef object _context
    cdef object _token
    cdef Stage _stage


cdef class CurrentRecord:
    cdef object _var            # ContextVar of OpenRecord or None
    cdef str _where
    cdef Py_ssize_t _alive      # records that some context may have; without any, none is asked

    cdef OpenRecord _top(self)
    cdef object _ended(self, OpenRecord record)

    cdef inline object now(self):
        """The record of the calling task or thread, also one that has ended; or None."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        return None if top is None else top._context

    cdef inline object of_write(self):
        """The record that a write comes from, or None; one that has ended is a StateError."""
        cdef OpenRecord top
        if not self._alive:
            return None
        top = self._top()
        if top is None:
            return None
        if top._stage == ENDED and top._context is not None:
            self._ended(top)
        return top._context

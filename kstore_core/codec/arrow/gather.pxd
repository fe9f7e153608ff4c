# cython: language_level=3
"""Rows that are at arbitrary positions of Arrow columns."""

from libc.stdint cimport int64_t, uint8_t


# The bytes of one row.
cdef struct View:
    const uint8_t *data
    Py_ssize_t size             # -1 if the row is null


cdef class Gathered:
    """The views of some rows, and the owner of their memory."""

    cdef View *views
    cdef uint8_t *copied        # the bytes of all rows; NULL if the views refer to the columns
    cdef int64_t length
    cdef int64_t size           # the size of all rows in bytes
    cdef list columns

    cdef int copy(self) except -1


cdef Gathered gathered(columns, positions)

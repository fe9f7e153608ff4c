# cython: language_level=3
"""Conversions of Python integers to 64 and 32 bits, which do not accept a float."""

from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t

cdef extern from "Python.h":
    int PyLong_CheckExact(object number)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef inline int64_t as_i64(object number, str what) except? -1:
    """Convert an int to 64 bits. Raise TypeError for a float, OverflowError for a large int."""
    cdef int overflow = 0
    cdef int64_t result
    if not PyLong_CheckExact(number):
        try:
            number = number.__index__()
        except AttributeError:
            raise TypeError(f"{what} must be an int, not {type(number).__name__}") from None
    result = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        raise OverflowError(f"{what}: {number} does not fit a signed integer of 64 bits")
    return result


cdef inline int32_t as_i32(object number, str what) except? -1:
    """Convert an int to 32 bits. Raise TypeError for a float, OverflowError for a large int."""
    cdef int64_t result = as_i64(number, what)
    if not INT32_MIN <= result <= INT32_MAX:
        raise OverflowError(f"{what}: {number} does not fit a signed integer of 32 bits")
    return <int32_t>result

# cython: language_level=3
"""Python integers as 64 and 32 bits: no floats, and a message that names the number."""

from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t

cdef extern from "Python.h":
    int PyLong_CheckExact(object number)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef inline int64_t as_i64(object number, str what) except? -1:
    """`number` as an integer of 64 bits, or an error."""
    cdef int overflow = 0
    cdef int64_t result
    if not PyLong_CheckExact(number):
        try:
            number = number.__index__()
        except AttributeError:
            raise TypeError(f"{what}: an int is needed, not {type(number).__name__}") from None
    result = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow:
        raise OverflowError(f"{what}: {number} does not fit a signed integer of 64 bits")
    return result


cdef inline int32_t as_i32(object number, str what) except? -1:
    """`number` as an integer of 32 bits, or an error."""
    cdef int64_t result = as_i64(number, what)
    if not INT32_MIN <= result <= INT32_MAX:
        raise OverflowError(f"{what}: {number} does not fit a signed integer of 32 bits")
    return <int32_t>result

# cython: language_level=3
"""A cache of header keys. Records whose headers have equal keys share the str objects of the keys.

The cache has one slot for each hash. It contains only short ASCII keys, which can be compared with
bytes without decoding. Free-threaded Python does not use the cache, because the slots would need a
lock.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
      #define KSTORE_SHARES_KEYS 0
    #else
      #define KSTORE_SHARES_KEYS 1
    #endif
    """
    const bint KSTORE_SHARES_KEYS

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject *text)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *text)
    void *PyUnicode_DATA(PyObject *text)

cdef enum:
    SLOTS = 256
    LONGEST = 64


cdef struct KeyCache:
    PyObject *keys[SLOTS]


cdef inline size_t slot_of(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Return a hash of the length and of the first and last 8 bytes."""
    cdef uint64_t first = 0
    cdef uint64_t last = 0
    if size >= 8:
        memcpy(&first, data, 8)
        memcpy(&last, data + size - 8, 8)
    else:
        memcpy(&first, data, size)
    first = (first ^ <uint64_t>size) * 0x9E3779B97F4A7C15ULL
    last = (last ^ (first >> 29)) * 0xBF58476D1CE4E5B9ULL
    return <size_t>(last >> 56)


cdef inline str cached_key(KeyCache *cache, const uint8_t *data, Py_ssize_t size):
    """Return the text of a header key. Bytes that are not UTF-8 become U+FFFD."""
    cdef size_t slot
    cdef PyObject *known
    if not KSTORE_SHARES_KEYS or size > LONGEST:
        return <str>PyUnicode_DecodeUTF8(<const char *>data, size, "replace")
    slot = slot_of(data, size)
    known = cache.keys[slot]
    if (
        known is not NULL
        and PyUnicode_GET_LENGTH(known) == size
        and memcmp(PyUnicode_DATA(known), data, size) == 0
    ):
        return <str>known
    key = <str>PyUnicode_DecodeUTF8(<const char *>data, size, "replace")
    if PyUnicode_IS_COMPACT_ASCII(<PyObject *>key):
        Py_INCREF(key)
        cache.keys[slot] = <PyObject *>key
        Py_XDECREF(known)
    return key

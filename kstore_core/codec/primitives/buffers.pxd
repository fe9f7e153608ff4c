# cython: language_level=3
"""Views of bytes-like objects, new bytes objects, and a scratch buffer that begins on the stack."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef enum:
    STACK_BYTES = 512


# ---------------------------------------------------------------- views

cdef struct View:
    const uint8_t *data
    Py_ssize_t size
    bint held               # True if `buffer` must be released
    Py_buffer buffer


cdef inline int open_view(object source, View *view) except -1:
    """Open a view of a bytes-like object; raise TypeError for any other object.

    The caller must keep a reference to `source` and must call `close_view`.
    """
    if PyBytes_CheckExact(source):
        view.data = <const uint8_t *>PyBytes_AS_STRING(source)
        view.size = PyBytes_GET_SIZE(source)
        view.held = False
        return 0
    view.held = False
    PyObject_GetBuffer(source, &view.buffer, PyBUF_SIMPLE)
    view.held = True
    view.data = <const uint8_t *>view.buffer.buf
    view.size = view.buffer.len
    return 0


cdef inline void close_view(View *view) noexcept:
    if view.held:
        view.held = False
        PyBuffer_Release(&view.buffer)


cdef inline bytes new_bytes(Py_ssize_t size):
    """Return uninitialised bytes. The caller must fill them before any other code reads them."""
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline bytes copy_bytes(const uint8_t *data, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>data, size)


cdef inline bytes bytes_of(object source):
    """Return a bytes object itself, or a copy of another bytes-like object."""
    cdef View view
    if PyBytes_CheckExact(source):
        return <bytes>source
    open_view(source, &view)
    try:
        return copy_bytes(view.data, view.size)
    finally:
        close_view(&view)


cdef inline uint8_t *address(bytes data) noexcept:
    return <uint8_t *>PyBytes_AS_STRING(data)


cdef inline uint8_t *put(uint8_t *where, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Copy bytes and return the address after the copy."""
    if size > 0:                # The address of an empty view may be NULL.
        memcpy(where, data, size)
    return where + size


# ---------------------------------------------------------------- scratch

cdef struct Scratch:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t capacity
    bint heap
    uint8_t[STACK_BYTES] stack


cdef inline void open_scratch(Scratch *scratch) noexcept:
    scratch.data = scratch.stack
    scratch.size = 0
    scratch.capacity = STACK_BYTES
    scratch.heap = False


cdef inline int grow(Scratch *scratch, Py_ssize_t more) except -1:
    cdef Py_ssize_t capacity = 2 * (scratch.capacity + more)
    cdef uint8_t *data = <uint8_t *>PyMem_Malloc(capacity)
    if data is NULL:
        raise MemoryError(f"no memory for {capacity} header bytes")
    memcpy(data, scratch.data, scratch.size)
    if scratch.heap:
        PyMem_Free(scratch.data)
    scratch.data = data
    scratch.capacity = capacity
    scratch.heap = True
    return 0


cdef inline int reserve(Scratch *scratch, Py_ssize_t more) except -1:
    """Make room for `more` bytes after the bytes already written."""
    if scratch.capacity - scratch.size < more:
        grow(scratch, more)
    return 0


cdef inline void close_scratch(Scratch *scratch) noexcept:
    if scratch.heap:
        scratch.heap = False
        PyMem_Free(scratch.data)

# cython: language_level=3
from libc.stdint cimport int32_t, int64_t, uint8_t


# The fields of a record. The pointers refer to bytes of objects in RecordColumns.sources.
cdef struct Slot:
    int64_t offset
    int64_t timestamp
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers      # encoded as in a stored value; 0 bytes if there are no headers
    int32_t key_size            # -1 for null
    int32_t value_size          # -1 for null
    int32_t header_size


cdef class RecordColumns:
    cdef Slot *slots
    cdef Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef Py_ssize_t payload     # size of all keys, values and headers in bytes
    cdef list sources           # the objects whose bytes the slots point to
    cdef int64_t end            # the offset after the last record
    cdef Py_ssize_t stop        # the number of input bytes that were decoded

    cdef int make_room(self, Py_ssize_t more) except -1
    cdef void push(self, const Slot *slot) noexcept nogil
    cdef int check_next(self, int64_t offset) except -1

# cython: language_level=3
from libc.stdint cimport int32_t, int64_t, uint8_t


# Where a record's parts are, in bytes that the columns keep alive.
cdef struct Slot:
    int64_t offset
    int64_t timestamp
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers      # as in a stored value: nothing at all for no headers
    int32_t key_size            # -1 for null
    int32_t value_size          # -1 for null
    int32_t header_size


cdef class RecordColumns:
    cdef Slot *slots
    cdef Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef Py_ssize_t payload     # bytes of all keys, values and headers
    cdef list sources           # what the slots point into
    cdef int64_t end            # the offset behind the last one
    cdef Py_ssize_t stop        # how many bytes of the input were read

    cdef int make_room(self, Py_ssize_t more) except -1
    cdef void push(self, const Slot *slot) noexcept nogil
    cdef int check_next(self, int64_t offset) except -1

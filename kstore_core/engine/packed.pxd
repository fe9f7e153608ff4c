# cython: language_level=3
from libc.stdint cimport int64_t, uint8_t


cdef class Memory:
    cdef uint8_t *data
    cdef int64_t *ends          # value i is from ends[i] to ends[i + 1]
    cdef Py_ssize_t size        # of `data`, in bytes
    cdef Py_ssize_t count       # of values for which `ends` has room

    cdef int grow(self, Py_ssize_t count, Py_ssize_t size) except -1


cdef class PackedBytes:
    cdef Memory memory
    cdef Py_ssize_t start
    cdef Py_ssize_t stop

    cdef PackedBytes part(self, Py_ssize_t start, Py_ssize_t stop)
    cdef Py_ssize_t total(self) noexcept
    cdef int append(self, const uint8_t *data, Py_ssize_t size) except -1

    cdef inline const uint8_t *at(self, Py_ssize_t index) noexcept nogil:
        return self.memory.data + self.memory.ends[self.start + index]

    cdef inline Py_ssize_t size(self, Py_ssize_t index) noexcept nogil:
        index += self.start
        return <Py_ssize_t>(self.memory.ends[index + 1] - self.memory.ends[index])


cdef PackedBytes packed(Py_ssize_t count, Py_ssize_t size)

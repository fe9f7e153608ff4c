# cython: language_level=3
"""A sequence of bytes in one buffer, without an object for each value."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

__all__ = ["PackedBytes"]


cdef class Memory:
    """The buffer of a sequence, and the position of each value's end in the buffer."""

    def __dealloc__(self):
        free(self.data)
        free(self.ends)

    cdef int grow(self, Py_ssize_t count, Py_ssize_t size) except -1:
        """Make room for ``count`` values that have ``size`` bytes in total."""
        cdef void *room = realloc(self.data, size or 1)
        if room is not NULL:
            self.data, self.size = <uint8_t *>room, size
            room = realloc(self.ends, (count + 1) * sizeof(int64_t))
        if room is NULL:
            raise MemoryError(f"no memory for {count} values of {size} bytes")
        self.ends, self.count = <int64_t *>room, count
        self.ends[0] = 0
        return 0


cdef class PackedBytes:
    """A read-only sequence of bytes objects. An item is created when it is read.

    A slice must have the step 1, and shares the buffer of the sequence. Only Cython code can create
    a sequence that is not empty.
    """

    def __len__(self):
        return self.stop - self.start

    def __getitem__(self, index):
        cdef Py_ssize_t at, start, stop, step
        if isinstance(index, slice):
            start, stop, step = index.indices(self.stop - self.start)
            if step != 1:
                raise ValueError(f"a slice of packed bytes needs the step 1, not {step}")
            return self.part(start, max(start, stop))
        at = index
        if at < 0:
            at += self.stop - self.start
        if not 0 <= at < self.stop - self.start:
            raise IndexError(f"index {index} is not within {self.stop - self.start} packed bytes")
        return PyBytes_FromStringAndSize(<const char *>self.at(at), self.size(at))

    def __iter__(self):
        cdef Py_ssize_t at
        for at in range(self.stop - self.start):
            yield PyBytes_FromStringAndSize(<const char *>self.at(at), self.size(at))

    cdef PackedBytes part(self, Py_ssize_t start, Py_ssize_t stop):
        cdef PackedBytes other = PackedBytes.__new__(PackedBytes)
        other.memory = self.memory
        other.start, other.stop = self.start + start, self.start + stop
        return other

    cdef Py_ssize_t total(self) noexcept:
        """Return the size of all values in bytes."""
        if self.memory is None:
            return 0
        return <Py_ssize_t>(self.memory.ends[self.stop] - self.memory.ends[self.start])

    cdef int append(self, const uint8_t *data, Py_ssize_t size) except -1:
        """Add a value. No other sequence may share the buffer."""
        cdef Memory memory = self.memory
        cdef Py_ssize_t used = <Py_ssize_t>memory.ends[self.stop]
        if self.stop == memory.count or size > memory.size - used:
            memory.grow(2 * self.stop + 64, 2 * (used + size) + 4096)
        memcpy(memory.data + used, data, size)
        self.stop += 1
        memory.ends[self.stop] = used + size
        return 0


cdef PackedBytes packed(Py_ssize_t count, Py_ssize_t size):
    """Return a sequence for ``count`` values that have ``size`` bytes in total.

    The caller must write the values to ``memory.data``, and set ``memory.ends[i + 1]`` to the end
    of each value ``i``.
    """
    cdef PackedBytes made = PackedBytes.__new__(PackedBytes)
    made.memory = Memory.__new__(Memory)
    made.memory.grow(count, size)
    made.stop = count
    return made

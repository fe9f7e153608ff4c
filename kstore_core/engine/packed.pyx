# cython: language_level=3
"""A sequence of bytes in one buffer. Bulk loads use it to avoid an object for each value."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

__all__ = ["PackedBytes"]


cdef class Memory:
    """The buffer of a sequence, and the position of each value's end in the buffer."""

    def __dealloc__(self):
        free(self.data)
        free(self.ends)


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


cdef PackedBytes packed(Py_ssize_t count, Py_ssize_t size):
    """Return a sequence for ``count`` values that have ``size`` bytes in total.

    The caller must write the values to ``memory.data``, and set ``memory.ends[i + 1]`` to the end
    of each value ``i``.
    """
    cdef PackedBytes made = PackedBytes.__new__(PackedBytes)
    made.memory = Memory.__new__(Memory)
    made.memory.data = <uint8_t *>malloc(size or 1)
    made.memory.ends = <Py_ssize_t *>malloc((count + 1) * sizeof(Py_ssize_t))
    if made.memory.data is NULL or made.memory.ends is NULL:
        raise MemoryError(f"no memory for {count} values of {size} bytes")
    made.memory.ends[0] = 0
    made.stop = count
    return made

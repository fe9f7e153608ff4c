# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
"""The class `RowSlices`: rows in the memory of an engine, without a Python object for each row."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

__all__ = ["RowSlices"]

cdef enum:
    KEY_BYTES = 32              # the room that is allocated for each key at first


@cython.final
cdef class RowSlices:
    """A list of rows in key order. It copies the keys and refers to the values.

    Parameters
    ----------
    size : int
        The maximum number of rows.
    """

    def __cinit__(self, Py_ssize_t size):
        self.owners = []
        self.room = size * KEY_BYTES
        self.values = <Slice *>malloc(max(size, 1) * sizeof(Slice))
        self.ends = <int64_t *>malloc((size + 1) * sizeof(int64_t))
        self.keys = <uint8_t *>malloc(max(self.room, 1))
        if self.values is NULL or self.ends is NULL or self.keys is NULL:
            raise MemoryError(f"cannot allocate memory for {size} rows")
        self.ends[0] = 0

    def __dealloc__(self):
        free(self.values)
        free(self.ends)
        free(self.keys)

    cdef int append(
        self, const uint8_t *key, Py_ssize_t key_size, const uint8_t *value, Py_ssize_t value_size
    ) except -1:
        """Append a row. The caller makes sure that there are not too many rows."""
        cdef int64_t at = self.ends[self.count]
        if key_size > self.room - at:
            self.grow(at + key_size)
        memcpy(self.keys + at, key, key_size)
        self.values[self.count].data, self.values[self.count].size = value, value_size
        self.value_bytes += value_size
        self.count += 1
        self.ends[self.count] = at + key_size
        return 0

    cdef int grow(self, int64_t needed) except -1:
        cdef void *keys = realloc(self.keys, 2 * needed)
        if keys is NULL:
            raise MemoryError(f"cannot allocate memory for keys of {needed} bytes")
        self.keys, self.room = <uint8_t *>keys, 2 * needed
        return 0

    cdef int own(self, object owner) except -1:
        """Keep an owner of the memory of later values."""
        if not self.owners or self.owners[-1] is not owner:
            self.owners.append(owner)
        return 0

    def __len__(self):
        return self.count

    def key(self, Py_ssize_t row):
        """Return the key of a row as bytes."""
        if not 0 <= row < self.count:
            raise IndexError(f"row {row} of {self.count} rows")
        return PyBytes_FromStringAndSize(
            <const char *>self.keys + self.ends[row], self.ends[row + 1] - self.ends[row]
        )

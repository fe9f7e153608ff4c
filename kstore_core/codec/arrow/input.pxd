# cython: language_level=3
"""Structures that describe the buffers of an imported Arrow column."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.arrow.abi cimport ArrowArray, ArrowSchema


cdef struct Bits:
    const uint8_t *data         # NULL if no element is null
    int64_t offset


cdef inline bint is_set(const Bits *bits, int64_t index) noexcept nogil:
    index += bits.offset
    return bits.data is NULL or (bits.data[index >> 3] >> (index & 7)) & 1


# The offsets of the elements of a variable-width column; an offset has 32 or 64 bits.
cdef struct Offsets:
    const int32_t *narrow
    const int64_t *wide         # NULL if the offsets have 32 bits


cdef inline int64_t offset_at(const Offsets *offsets, int64_t index) noexcept nogil:
    return offsets.narrow[index] if offsets.wide is NULL else offsets.wide[index]


# A column of binary or string.
cdef struct Texts:
    int64_t length
    bint all_null
    Bits valid
    Offsets offsets
    const uint8_t *data


cdef inline bint text_valid(const Texts *texts, int64_t index) noexcept nogil:
    return not texts.all_null and is_set(&texts.valid, index)


cdef inline const uint8_t *text_at(
    const Texts *texts, int64_t index, Py_ssize_t *size
) noexcept nogil:
    cdef int64_t start = offset_at(&texts.offsets, index)
    size[0] = <Py_ssize_t>(offset_at(&texts.offsets, index + 1) - start)
    return texts.data + start


# A column of int64 milliseconds, or of timestamps with any unit.
cdef struct Times:
    int64_t length
    Bits valid
    const int64_t *data
    int64_t multiply            # the factor that gives milliseconds
    int64_t divide


# A column of list<struct<key: string, value: binary>>.
cdef struct HeaderLists:
    int64_t length
    bint absent                 # True if no column was passed; then no row has headers
    Bits valid
    Offsets offsets
    Bits entry_valid
    Texts keys
    Texts values


cdef class Column:
    """The owner of an imported Arrow array. The array is freed with this object."""

    cdef object _capsules
    cdef const ArrowSchema *schema
    cdef const ArrowArray *array

    cdef int as_texts(self, Texts *texts, str what, bint strings) except -1
    cdef int as_times(self, Times *times, str what) except -1
    cdef int as_header_lists(self, HeaderLists *lists) except -1
    cdef bint is_wide(self) except -1


cdef Column open_column(object source, str what)

# cython: language_level=3
"""Arrow columns under construction. The importer of a finished column frees its buffers."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.arrow.abi cimport ArrowArray, ArrowSchema


cdef class Exported:
    """A finished column, which can be imported once through ``__arrow_c_array__``."""

    cdef ArrowSchema schema
    cdef ArrowArray array


# A binary or string column under construction. Its final size is known, so it never grows.
cdef struct TextsOut:
    int64_t length
    int64_t nulls
    bint wide
    uint8_t *valid              # one bit per element, at first all 1
    void *offsets               # length + 1 numbers: int64 if wide, else int32
    uint8_t *data
    int64_t written             # bytes of data written so far


cdef struct TimesOut:
    int64_t length
    int64_t nulls
    uint8_t *valid
    int64_t *data


cdef struct ListsOut:
    int64_t length
    int64_t nulls
    uint8_t *valid
    int32_t *offsets            # length + 1 numbers
    int64_t total               # headers written so far
    TextsOut keys
    TextsOut values


cdef int allocate_texts(TextsOut *out, int64_t length, int64_t size, bint wide) except -1
cdef int allocate_times(TimesOut *out, int64_t length) except -1
cdef int allocate_lists(
    ListsOut *out, int64_t length, int64_t headers, int64_t key_bytes, int64_t value_bytes
) except -1
cdef void free_texts(TextsOut *out) noexcept
cdef void free_times(TimesOut *out) noexcept
cdef void free_lists(ListsOut *out) noexcept
cdef object texts_array(TextsOut *out, bint strings)
cdef object times_array(TimesOut *out)
cdef object lists_array(ListsOut *out)


cdef inline void clear_bit(uint8_t *bits, int64_t index) noexcept nogil:
    bits[index >> 3] &= <uint8_t>~(1 << (index & 7))


cdef inline void end_text(TextsOut *out, int64_t index) noexcept nogil:
    """End element `index` after the bytes written so far."""
    if out.wide:
        (<int64_t *>out.offsets)[index + 1] = out.written
    else:
        (<int32_t *>out.offsets)[index + 1] = <int32_t>out.written


cdef inline void null_text(TextsOut *out, int64_t index) noexcept nogil:
    clear_bit(out.valid, index)
    out.nulls += 1
    end_text(out, index)


cdef inline void null_time(TimesOut *out, int64_t index) noexcept nogil:
    clear_bit(out.valid, index)
    out.nulls += 1
    out.data[index] = 0


cdef inline void null_list(ListsOut *out, int64_t index) noexcept nogil:
    clear_bit(out.valid, index)
    out.nulls += 1
    out.offsets[index + 1] = <int32_t>out.total

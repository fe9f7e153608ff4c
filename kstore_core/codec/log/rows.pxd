# cython: language_level=3
from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.buffers cimport put
from kstore_core.codec.arrow.layouts cimport Layout
from kstore_core.codec.log.columns cimport Slot
from kstore_core.codec.primitives.wire cimport store_i64, store_varint, varint_size
from kstore_core.engine.prefetching cimport prefetch_all

cdef enum:
    AHEAD = 8       # records that are prefetched before they are read
    PREFETCHED_BYTES = 256


cdef int row_layout(object name, Layout *layout) except -1
cdef int32_t sized(Py_ssize_t size, Py_ssize_t index) except -1
cdef int refuse_null_key(const Slot *slot) except -1


cdef inline int64_t row_size(const Slot *slot, const Layout *layout) noexcept nogil:
    """Return the size of the stored value of a record that is not a tombstone."""
    cdef int64_t size = slot.value_size
    if layout.headed:
        size += varint_size(slot.header_size) + slot.header_size
    return size + 8 if layout.timed else size


cdef inline uint8_t *write_row(
    uint8_t *here, const Slot *slot, const Layout *layout
) noexcept nogil:
    if layout.headed:
        here = store_varint(here, slot.header_size)
        here = put(here, slot.headers, slot.header_size)
    if layout.timed:
        here = store_i64(here, slot.timestamp)
    return put(here, slot.value, slot.value_size)


cdef inline void prefetch_field(const uint8_t *data, int32_t size) noexcept nogil:
    """Prefetch the start of a field. A field with a negative size does not exist."""
    if size > 0:
        prefetch_all(data, data + min(size, PREFETCHED_BYTES))


cdef inline void prefetch_slot(const Slot *slot) noexcept nogil:
    prefetch_field(slot.key, slot.key_size)
    prefetch_field(slot.value, slot.value_size)
    prefetch_field(slot.headers, slot.header_size)

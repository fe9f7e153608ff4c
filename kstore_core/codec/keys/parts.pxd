# cython: language_level=3
"""The positions of the key and the times in a composite key (docs/formats.md, Keys)."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore_core.codec.primitives.wire cimport load_i32, load_i64


cdef enum:
    NO_PREFIX = -1
    TIME_FIRST = 0      # the first byte of a row of a time-ordered store
    KEY_FIRST = 1       # the first byte of an index row of a time-ordered store


cdef struct Parts:
    const uint8_t *key
    Py_ssize_t key_size
    int64_t first       # the window's start, or the session's end
    int64_t second      # the session's start; 0 for a window
    int32_t number      # the sequence number, which distinguishes duplicates; 0 if absent


cdef inline bint take_apart(
    const uint8_t *data, Py_ssize_t size, int prefix, int width, Parts *parts
) noexcept nogil:
    """Fill in `parts`. Return False if the row is too short or if its first byte is not `prefix`.

    The times take `width` bytes: 8 (first), 12 (first, number) or 16 (first, second).
    """
    cdef Py_ssize_t lead = prefix != NO_PREFIX
    cdef const uint8_t *first
    cdef const uint8_t *rest
    parts.key_size = size - width - lead
    if parts.key_size < 0 or (lead and data[0] != prefix):
        return False
    if prefix == TIME_FIRST:
        first = data + 1
        rest = first + 8 if width == 16 else data + size - 4
        parts.key = first + (16 if width == 16 else 8)
    else:
        parts.key = data + lead
        first = parts.key + parts.key_size
        rest = first + 8
    parts.first = load_i64(first)
    parts.second = load_i64(rest) if width == 16 else 0
    parts.number = load_i32(rest) if width == 12 else 0
    return True

# cython: language_level=3
"""Functions that replace invalid UTF-8 like ``bytes.decode("utf-8", "replace")``, without GIL."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline bint is_ascii(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word
    cdef uint64_t seen = 0
    while size >= 8:
        memcpy(&word, data, 8)
        seen |= word
        data += 8
        size -= 8
    while size > 0:
        seen |= <uint64_t>data[0] << 56
        data += 1
        size -= 1
    return not seen & 0x8080808080808080ULL


cdef inline Py_ssize_t sound_prefix(
    const uint8_t *data, Py_ssize_t size, bint *complete
) noexcept nogil:
    """Return the size of the character at `data`, and set `complete`.

    If the character is invalid, return the number of bytes that one U+FFFD replaces, at least 1.
    """
    cdef uint8_t lead = data[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef Py_ssize_t width
    cdef Py_ssize_t i
    complete[0] = True
    if lead < 0x80:
        return 1
    complete[0] = False
    if lead < 0xC2 or lead > 0xF4:
        return 1
    if lead < 0xE0:
        width = 2
    elif lead < 0xF0:
        width = 3
        if lead == 0xE0:
            low = 0xA0              # a lower byte would make it overlong
        elif lead == 0xED:
            high = 0x9F             # a higher byte would make it a surrogate
    else:
        width = 4
        if lead == 0xF0:
            low = 0x90              # a lower byte would make it overlong
        elif lead == 0xF4:
            high = 0x8F             # a higher byte would exceed U+10FFFF
    for i in range(1, width):
        if i == size or data[i] < low or data[i] > high:
            return i
        low, high = 0x80, 0xBF
    complete[0] = True
    return width


cdef inline Py_ssize_t repaired_utf8(
    const uint8_t *data, Py_ssize_t size, uint8_t *out
) noexcept nogil:
    """Copy text to `out` with U+FFFD for invalid bytes. Return the size of the result in bytes.

    If `out` is NULL, nothing is copied.
    """
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t width
    cdef bint complete = True
    while size > 0:
        width = sound_prefix(data, size, &complete)
        if complete:
            if out is not NULL:
                memcpy(out + total, data, width)
            total += width
        else:
            if out is not NULL:
                out[total] = 0xEF
                out[total + 1] = 0xBF
                out[total + 2] = 0xBD
            total += 3
        data += width
        size -= width
    return total

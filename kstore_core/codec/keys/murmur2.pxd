# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t


cdef inline uint32_t murmur2_hash(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Return the murmur2 hash with seed 0x9747b28c. Blocks of 4 bytes are read as little-endian."""
    cdef uint32_t factor = 0x5BD1E995
    cdef uint32_t state = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t block
    while size >= 4:
        block = (
            <uint32_t>data[0] | (<uint32_t>data[1] << 8)
            | (<uint32_t>data[2] << 16) | (<uint32_t>data[3] << 24)
        )
        block *= factor
        block ^= block >> 24
        block *= factor
        state *= factor
        state ^= block
        data += 4
        size -= 4
    if size == 3:
        state ^= <uint32_t>data[2] << 16
    if size >= 2:
        state ^= <uint32_t>data[1] << 8
    if size >= 1:
        state ^= data[0]
        state *= factor
    state ^= state >> 13
    state *= factor
    return state ^ (state >> 15)

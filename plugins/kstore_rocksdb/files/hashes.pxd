# cython: language_level=3
"""The hash of keys in the Bloom filter of a table file.

RocksDB uses a preview version of XXH3 (from xxHash 0.7.2) as a part of its file format. This module
can hash only keys of at most 240 bytes.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>

    static const uint8_t KSTORE_SECRET[136] = {
        0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad,
        0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3,
        0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc,
        0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
        0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65,
        0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
        0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9,
        0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
        0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb,
        0xc3,
    };

    static inline uint64_t kstore_fold(uint64_t one, uint64_t other) {
        unsigned __int128 product = (unsigned __int128)one * other;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    const uint8_t KSTORE_SECRET[136]
    uint64_t kstore_fold(uint64_t one, uint64_t other) nogil

cdef enum:
    LONGEST_HASHED = 240

# The primes of xxHash.
cdef inline uint64_t p1() noexcept nogil: return 0x9E3779B185EBCA87ULL
cdef inline uint64_t p2() noexcept nogil: return 0xC2B2AE3D27D4EB4FULL
cdef inline uint64_t p3() noexcept nogil: return 0x165667B19E3779F9ULL


cdef inline uint64_t read64(const uint8_t *data) noexcept nogil:
    """Return eight little-endian bytes as a number. The compiler makes one load of this."""
    return (
        <uint64_t>data[0] | (<uint64_t>data[1] << 8)
        | (<uint64_t>data[2] << 16) | (<uint64_t>data[3] << 24)
        | (<uint64_t>data[4] << 32) | (<uint64_t>data[5] << 40)
        | (<uint64_t>data[6] << 48) | (<uint64_t>data[7] << 56)
    )


cdef inline uint64_t read32(const uint8_t *data) noexcept nogil:
    return (
        <uint64_t>data[0] | (<uint64_t>data[1] << 8)
        | (<uint64_t>data[2] << 16) | (<uint64_t>data[3] << 24)
    )


cdef inline uint64_t avalanche(uint64_t bits) noexcept nogil:
    bits = (bits ^ (bits >> 37)) * p3()
    return bits ^ (bits >> 32)


cdef inline uint64_t mixed(const uint8_t *data, int at) noexcept nogil:
    """Mix sixteen bytes of the key with the bytes of the secret from ``at`` on."""
    return kstore_fold(
        read64(data) ^ read64(KSTORE_SECRET + at), read64(data + 8) ^ read64(KSTORE_SECRET + at + 8)
    )


cdef inline uint64_t filter_hash(const uint8_t *key, size_t size) noexcept nogil:
    """Return the hash of a key of at most LONGEST_HASHED bytes for a Bloom filter."""
    cdef uint64_t one, other, bits
    cdef int i
    if size > 128:
        bits = size * p1()
        for i in range(8):
            bits += mixed(key + 16 * i, 16 * i)
        bits = avalanche(bits)
        for i in range(8, <int>(size // 16)):
            bits += mixed(key + 16 * i, 16 * (i - 8) + 3)
        return avalanche(bits + mixed(key + size - 16, 136 - 17))
    if size > 16:
        bits = size * p1()
        if size > 96:
            bits += mixed(key + 48, 96) + mixed(key + size - 64, 112)
        if size > 64:
            bits += mixed(key + 32, 64) + mixed(key + size - 48, 80)
        if size > 32:
            bits += mixed(key + 16, 32) + mixed(key + size - 32, 48)
        return avalanche(bits + mixed(key, 0) + mixed(key + size - 16, 16))
    if size > 8:
        one = read64(key) ^ read64(KSTORE_SECRET)
        other = read64(key + size - 8) ^ read64(KSTORE_SECRET + 8)
        return avalanche(size + one + other + kstore_fold(one, other))
    if size >= 4:
        bits = (read32(key) | (read32(key + size - 4) << 32)) ^ read64(KSTORE_SECRET)
        bits = size + (bits ^ (bits >> 51)) * <uint64_t>0x9E3779B1
        return avalanche((bits ^ (bits >> 47)) * p2())
    if size:
        bits = (
            key[0] | (<uint32_t>key[size >> 1] << 8) | (<uint32_t>key[size - 1] << 16)
            | (<uint32_t>size << 24)
        )
        return avalanche((bits ^ read32(KSTORE_SECRET)) * p1())
    return kstore_fold(read64(KSTORE_SECRET), p2())

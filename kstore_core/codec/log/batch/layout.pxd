# cython: language_level=3
"""The positions of the fields in a record batch (docs/changelogs.md, Record batches).

    base:i64 length:i32 epoch:i32 magic:i8 crc:u32 | attributes:i16 last:i32 first:i64 max:i64
    producer:i64 producer-epoch:i16 sequence:i32 count:i32 records

The checksum covers all bytes after the field `crc`. `length` is the number of bytes after the field
`length`.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from kstore_core.codec.primitives.wire cimport load_i32, load_i64, store_i32, store_i64


cdef enum:
    BATCH_BYTES = 61            # the size of a batch without records
    LENGTH_END = 12             # the position after the field `length`
    MAGIC_AT = 16
    SUMMED_FROM = 21            # the position after the field `crc`
    SUMMED_BYTES = 40           # the size of the fields after `crc`
    OLD_LEAST = 14              # the minimum `length` of the older formats, v0 and v1
    RECORD_LEAST = 7            # the minimum size of a record

    CODEC_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40


cdef struct Head:
    int64_t base_offset
    int32_t length
    int32_t leader_epoch
    uint32_t crc
    int16_t attributes
    int32_t last_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t count


cdef inline int16_t load_i16(const uint8_t *data) noexcept nogil:
    return <int16_t>((data[0] << 8) | data[1])


cdef inline uint8_t *store_i16(uint8_t *data, int16_t number) noexcept nogil:
    data[0] = <uint8_t>(number >> 8)
    data[1] = <uint8_t>number
    return data + 2


cdef inline void load_head(const uint8_t *data, Head *head) noexcept nogil:
    """Read the 61 bytes before the records."""
    head.base_offset = load_i64(data)
    head.length = load_i32(data + 8)
    head.leader_epoch = load_i32(data + 12)
    head.crc = <uint32_t>load_i32(data + 17)
    head.attributes = load_i16(data + 21)
    head.last_delta = load_i32(data + 23)
    head.base_timestamp = load_i64(data + 27)
    head.max_timestamp = load_i64(data + 35)
    head.producer_id = load_i64(data + 43)
    head.producer_epoch = load_i16(data + 51)
    head.base_sequence = load_i32(data + 53)
    head.count = load_i32(data + 57)


cdef inline void store_frame(uint8_t *data, const Head *head) noexcept nogil:
    """Write the first 21 bytes, which the checksum does not cover."""
    data = store_i64(data, head.base_offset)
    data = store_i32(data, head.length)
    data = store_i32(data, head.leader_epoch)
    data[0] = 2
    store_i32(data + 1, <int32_t>head.crc)


cdef inline uint8_t *store_summed(uint8_t *data, const Head *head) noexcept nogil:
    """Write the 40 bytes between the checksum and the records."""
    data = store_i16(data, head.attributes)
    data = store_i32(data, head.last_delta)
    data = store_i64(data, head.base_timestamp)
    data = store_i64(data, head.max_timestamp)
    data = store_i64(data, head.producer_id)
    data = store_i16(data, head.producer_epoch)
    data = store_i32(data, head.base_sequence)
    return store_i32(data, head.count)

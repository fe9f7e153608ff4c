# cython: language_level=3
"""Functions that read and write big-endian integers and varints, without Python objects.

The functions raise no exceptions, so the hot path has no code for exceptions. If the bytes are
malformed, a function returns a fault, and its reader stays at the faulty field. The caller then
calls `faults.raise_fault`, which raises a FormatError.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef enum Fault:
    SOUND = 0
    TRUNCATED_VARINT        # the bytes end inside a varint
    LONG_VARINT             # more bytes than a varint of its width may have
    SURPLUS_BITS            # the last byte of a varint has bits that do not fit the number
    NEGATIVE_SIZE           # a length below 0, or below -1 if a null is allowed
    SIZE_BEYOND_END         # a length greater than the number of remaining bytes
    NEGATIVE_COUNT          # a header count below 0
    COUNT_BEYOND_END        # a header count that is too great for the remaining bytes
    TRAILING_BYTES          # bytes after the last header
    TRUNCATED_FIELD         # the bytes end inside a field of fixed width
    ROW_TOO_SHORT           # a segment row that is too short for one version
    ROW_ENDS_IN_ENTRIES     # no entry of a segment row has the row's minimum timestamp
    ROW_OUT_OF_ORDER        # the entries of a segment row are not newest first
    ROW_SIZE_MISMATCH       # the value sizes of a segment row do not add up to its length


cdef struct Reader:
    const uint8_t *start
    const uint8_t *here
    const uint8_t *end
    int64_t number          # at a fault: the faulty length, count or size


cdef inline void open_reader(Reader *reader, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    reader.start = data
    reader.here = data
    reader.end = data + size
    reader.number = 0


cdef inline Py_ssize_t left(const Reader *reader) noexcept nogil:
    return reader.end - reader.here


# ---------------------------------------------------------------- fixed width, big-endian

cdef inline uint64_t load_u64(const uint8_t *data) noexcept nogil:
    return (
        (<uint64_t>data[0] << 56) | (<uint64_t>data[1] << 48)
        | (<uint64_t>data[2] << 40) | (<uint64_t>data[3] << 32)
        | (<uint64_t>data[4] << 24) | (<uint64_t>data[5] << 16)
        | (<uint64_t>data[6] << 8) | <uint64_t>data[7]
    )


cdef inline int64_t load_i64(const uint8_t *data) noexcept nogil:
    return <int64_t>load_u64(data)


cdef inline int32_t load_i32(const uint8_t *data) noexcept nogil:
    return <int32_t>(
        (<uint32_t>data[0] << 24) | (<uint32_t>data[1] << 16)
        | (<uint32_t>data[2] << 8) | <uint32_t>data[3]
    )


cdef inline uint8_t *store_i64(uint8_t *data, int64_t number) noexcept nogil:
    """Write 8 bytes and return the address after them."""
    cdef uint64_t bits = <uint64_t>number
    data[0] = <uint8_t>(bits >> 56)
    data[1] = <uint8_t>(bits >> 48)
    data[2] = <uint8_t>(bits >> 40)
    data[3] = <uint8_t>(bits >> 32)
    data[4] = <uint8_t>(bits >> 24)
    data[5] = <uint8_t>(bits >> 16)
    data[6] = <uint8_t>(bits >> 8)
    data[7] = <uint8_t>bits
    return data + 8


cdef inline uint8_t *store_i32(uint8_t *data, int32_t number) noexcept nogil:
    """Write 4 bytes and return the address after them."""
    cdef uint32_t bits = <uint32_t>number
    data[0] = <uint8_t>(bits >> 24)
    data[1] = <uint8_t>(bits >> 16)
    data[2] = <uint8_t>(bits >> 8)
    data[3] = <uint8_t>bits
    return data + 4


# ---------------------------------------------------------------- varints

cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


cdef inline int64_t unzigzag(uint64_t bits) noexcept nogil:
    return <int64_t>((bits >> 1) ^ (0 - (bits & 1)))


cdef inline Py_ssize_t unsigned_size(uint64_t bits) noexcept nogil:
    """Return the size of `bits` as an unsigned varint, 1 to 10 bytes."""
    cdef Py_ssize_t size = 1
    while bits >= 0x80:
        bits >>= 7
        size += 1
    return size


cdef inline Py_ssize_t varint_size(int64_t number) noexcept nogil:
    """Return the size of `number` as a zig-zag varint, 1 to 10 bytes."""
    return unsigned_size(zigzag(number))


cdef inline uint8_t *store_unsigned(uint8_t *data, uint64_t bits) noexcept nogil:
    while bits >= 0x80:
        data[0] = <uint8_t>(bits | 0x80)
        data += 1
        bits >>= 7
    data[0] = <uint8_t>bits
    return data + 1


cdef inline uint8_t *store_varint(uint8_t *data, int64_t number) noexcept nogil:
    """Write `number` as a zig-zag varint and return the address after it."""
    return store_unsigned(data, zigzag(number))


cdef inline Fault read_unsigned(Reader *reader, int width, uint64_t *bits) noexcept nogil:
    """Read an unsigned varint of `width` (32 or 64) bits. It may be padded with zero bits."""
    cdef const uint8_t *here = reader.here
    cdef uint64_t total = 0
    cdef uint64_t byte
    cdef int shift = 0
    while here < reader.end:
        byte = here[0]
        here += 1
        if shift + 7 > width:               # the last byte that is allowed
            if byte & 0x80:
                return LONG_VARINT
            if byte >> (width - shift):
                return SURPLUS_BITS
            bits[0] = total | (byte << shift)
            reader.here = here
            return SOUND
        total |= (byte & 0x7F) << shift
        if byte < 0x80:
            bits[0] = total
            reader.here = here
            return SOUND
        shift += 7
    return TRUNCATED_VARINT


cdef inline Fault read_varint(Reader *reader, int32_t *number) noexcept nogil:
    """Read a zig-zag varint of 32 bits."""
    cdef uint64_t bits = 0
    cdef Fault fault
    if reader.here < reader.end and reader.here[0] < 0x80:
        bits = reader.here[0]
        reader.here += 1
    else:
        fault = read_unsigned(reader, 32, &bits)
        if fault != SOUND:
            return fault
    number[0] = <int32_t>unzigzag(bits)
    return SOUND


cdef inline Fault read_size(Reader *reader, int32_t least, Py_ssize_t *size) noexcept nogil:
    """Read a length. It must be at least `least` and at most the number of remaining bytes.

    `least` is 0, or -1 if a null is allowed.
    """
    cdef const uint8_t *field = reader.here
    cdef int32_t number = 0
    cdef Fault fault = read_varint(reader, &number)
    if fault != SOUND:
        return fault
    if number < least or number > reader.end - reader.here:
        reader.number = number
        fault = NEGATIVE_SIZE if number < least else SIZE_BEYOND_END
        if fault == NEGATIVE_SIZE:
            reader.here = field
        return fault
    size[0] = number
    return SOUND


# ---------------------------------------------------------------- headers

cdef inline Fault read_count(Reader *reader, int32_t *count) noexcept nogil:
    """Read the number of headers. Check that the remaining bytes can contain that many."""
    cdef const uint8_t *field = reader.here
    cdef Fault fault = read_varint(reader, count)
    if fault != SOUND:
        return fault
    if count[0] < 0 or count[0] > (reader.end - reader.here) // 2:
        reader.number = count[0]
        if count[0] < 0:
            reader.here = field
            return NEGATIVE_COUNT
        return COUNT_BEYOND_END
    return SOUND


cdef inline Fault read_header(
    Reader *reader,
    const uint8_t **key, Py_ssize_t *key_size,
    const uint8_t **value, Py_ssize_t *value_size,
) noexcept nogil:
    """Read one header. Set `value_size` to -1 if the value is null."""
    cdef Fault fault = read_size(reader, 0, key_size)
    if fault != SOUND:
        return fault
    key[0] = reader.here
    reader.here += key_size[0]
    fault = read_size(reader, -1, value_size)
    if fault != SOUND:
        return fault
    value[0] = reader.here
    if value_size[0] > 0:
        reader.here += value_size[0]
    return SOUND


cdef inline Py_ssize_t short_header_size(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Return the size of a header whose two sizes take one byte each, or 0 for any other header."""
    cdef Py_ssize_t value
    if size < 2 or data[0] & 0x81:          # The sizes are even, because they are zig-zag varints.
        return 0
    value = 1 + (data[0] >> 1)
    if value >= size or data[value] & 0x81:
        return 0
    value += 1 + (data[value] >> 1)
    return value if value <= size else 0


cdef inline Fault walk_headers(Reader *reader, int32_t *count) noexcept nogil:
    """Check encoded headers and set `count` to their number, which is 0 for empty bytes."""
    cdef int32_t i
    cdef const uint8_t *data = NULL
    cdef const uint8_t *here
    cdef Py_ssize_t size = 0
    cdef Fault fault
    count[0] = 0
    if reader.here == reader.end:
        return SOUND
    fault = read_count(reader, count)
    if fault != SOUND:
        return fault
    here = reader.here
    for i in range(count[0]):
        size = short_header_size(here, reader.end - here)
        if size == 0:
            reader.here = here
            fault = read_header(reader, &data, &size, &data, &size)
            if fault != SOUND:
                return fault
            size = reader.here - here
        here += size
    reader.here = here
    if reader.here != reader.end:
        reader.number = reader.end - reader.here
        return TRAILING_BYTES
    return SOUND

# cython: language_level=3, freethreading_compatible=True, autotestdict=False
"""The failing path: what a fault of `wire.pxd` says to a person."""

from libc.stdint cimport int64_t

from kstore_core.codec.primitives.wire cimport (
    COUNT_BEYOND_END,
    LONG_VARINT,
    NEGATIVE_COUNT,
    NEGATIVE_SIZE,
    ROW_ENDS_IN_ENTRIES,
    ROW_OUT_OF_ORDER,
    ROW_SIZE_MISMATCH,
    ROW_TOO_SHORT,
    SIZE_BEYOND_END,
    SURPLUS_BITS,
    TRAILING_BYTES,
    TRUNCATED_FIELD,
    TRUNCATED_VARINT,
    Fault,
    Reader,
)

from kstore_core.errors import FormatError


cdef str describe(Fault fault, int64_t number, Py_ssize_t left):
    """The reason alone; `number` is the count or size in question, `left` the bytes after it."""
    if fault == TRUNCATED_VARINT:
        return "the bytes end inside a varint"
    if fault == LONG_VARINT:
        return "a varint is longer than its number can be (5 bytes for 32 bits, 10 for 64)"
    if fault == SURPLUS_BITS:
        return "the last byte of a varint holds bits that do not fit its number"
    if fault == NEGATIVE_SIZE:
        return f"negative size {number}"
    if fault == SIZE_BEYOND_END:
        return f"a size says {number} bytes, but {left} are left"
    if fault == NEGATIVE_COUNT:
        return f"negative header count {number}"
    if fault == COUNT_BEYOND_END:
        return f"a count says {number} headers, which the {left} bytes left cannot hold"
    if fault == TRAILING_BYTES:
        return f"{number} bytes are left after the last header"
    if fault == TRUNCATED_FIELD:
        return f"a field of {number} bytes is cut short: {left} are left"
    if fault == ROW_TOO_SHORT:
        return f"{number} bytes are too few for a segment row (28 at least)"
    if fault == ROW_ENDS_IN_ENTRIES:
        return f"no version has the row's minimum timestamp {number}"
    if fault == ROW_OUT_OF_ORDER:
        return f"the version at {number} is not older than the one before it"
    if fault == ROW_SIZE_MISMATCH:
        return f"the value sizes add up to {number} bytes, but {left} follow the versions"
    return "the bytes are sound"


cdef int raise_fault(Fault fault, const Reader *reader, str what) except -1:
    """Raise the FormatError of a fault, at the reader's position."""
    cdef Py_ssize_t offset = reader.here - reader.start
    reason = describe(fault, reader.number, reader.end - reader.here)
    raise FormatError(f"{what}: {reason} (at byte {offset})", offset=offset)

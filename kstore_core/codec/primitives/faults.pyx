# cython: language_level=3, freethreading_compatible=True, autotestdict=False
"""The error messages for the faults that the functions of `wire.pxd` return."""

from libc.stdint cimport int64_t

from kstore_core.codec.primitives.wire cimport (
    COUNT_BEYOND_END, LONG_VARINT, NEGATIVE_COUNT, NEGATIVE_SIZE, ROW_ENDS_IN_ENTRIES,
    ROW_OUT_OF_ORDER, ROW_SIZE_MISMATCH, ROW_TOO_SHORT, SIZE_BEYOND_END, SURPLUS_BITS,
    TRAILING_BYTES, TRUNCATED_FIELD, TRUNCATED_VARINT, Fault, Reader,
)

from kstore_core.errors import FormatError


cdef dict REASONS = {
    TRUNCATED_VARINT: "the bytes end inside a varint",
    LONG_VARINT: "a varint is too long; it may have at most 5 bytes for 32 bits, or 10 bytes for 64 bits",
    SURPLUS_BITS: "the last byte of a varint contains bits that do not fit in the decoded number",
    NEGATIVE_SIZE: "negative size {number}",
    SIZE_BEYOND_END: "a size says {number} bytes, but {left} are left",
    NEGATIVE_COUNT: "negative header count {number}",
    COUNT_BEYOND_END: "a count says {number} headers, but the {left} bytes left cannot contain them",
    TRAILING_BYTES: "{number} bytes are left after the last header",
    TRUNCATED_FIELD: "a field of {number} bytes is cut short: {left} are left",
    ROW_TOO_SHORT: "{number} bytes are too few for a segment row, which has at least 28",
    ROW_ENDS_IN_ENTRIES: "no version in the row has the row's minimum timestamp {number}",
    ROW_OUT_OF_ORDER: "the version with the timestamp {number} is not older than the preceding version",
    ROW_SIZE_MISMATCH: "the value sizes add up to {number} bytes, but {left} bytes follow the versions",
}


cdef str describe(Fault fault, int64_t number, Py_ssize_t left):
    """Return the error message of a fault, without its position.

    `number` is the faulty count, size or timestamp. `left` is the number of bytes after it.
    """
    return (<str>REASONS[<int>fault]).format(number=number, left=left)


cdef int raise_fault(Fault fault, const Reader *reader, str what) except -1:
    """Raise a FormatError that names the fault and the reader's position."""
    cdef Py_ssize_t offset = reader.here - reader.start
    reason = describe(fault, reader.number, reader.end - reader.here)
    raise FormatError(f"{what}: {reason} (at byte {offset})", offset=offset)

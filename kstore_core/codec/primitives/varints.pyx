# cython: language_level=3, freethreading_compatible=True, autotestdict=False, binding=False
# cython: embedsignature=True, embedsignature.format=clinic
"""Functions that encode and decode varints, the form of lengths and counts (docs/formats.md)."""

from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint64_t

from kstore_core.codec.primitives.buffers cimport View, close_view, copy_bytes, open_view
from kstore_core.codec.primitives.faults cimport raise_fault
from kstore_core.codec.primitives.integers cimport as_i32, as_i64
from kstore_core.codec.primitives.wire cimport (
    SOUND, Fault, Reader, open_reader, read_unsigned, store_unsigned, store_varint, unzigzag,
)


cdef bytes signed_bytes(int64_t number):
    cdef uint8_t[10] scratch
    return copy_bytes(scratch, store_varint(scratch, number) - scratch)


cdef tuple decoded(object buf, Py_ssize_t offset, int width, bint signed, str what):
    cdef View view
    cdef Reader reader
    cdef Fault fault
    cdef uint64_t bits = 0
    open_view(buf, &view)
    try:
        if not 0 <= offset <= view.size:
            raise ValueError(f"{what}: offset {offset} is outside the {view.size} bytes given")
        open_reader(&reader, view.data, view.size)
        reader.here += offset
        fault = read_unsigned(&reader, width, &bits)
        if fault != SOUND:
            raise_fault(fault, &reader, what)
        if signed:
            return unzigzag(bits), reader.here - reader.start
        return bits, reader.here - reader.start
    finally:
        close_view(&view)


def encode_varint(n):
    """Encode a signed integer of 32 bits as a zig-zag varint.

    Parameters
    ----------
    n : int
        A number from -2**31 to 2**31 - 1.

    Returns
    -------
    bytes
        The varint, 1 to 5 bytes. A number from -64 to 63 takes 1 byte.

    Raises
    ------
    OverflowError
        If `n` does not fit 32 bits.
    """
    return signed_bytes(as_i32(n, "varint"))


def encode_varlong(n):
    """Encode a signed integer of 64 bits as a zig-zag varint of 1 to 10 bytes.

    Raise OverflowError if `n` does not fit 64 bits.
    """
    return signed_bytes(as_i64(n, "varlong"))


def encode_unsigned_varint(n):
    """Encode an integer from 0 to 2**32 - 1 as an unsigned varint of 1 to 5 bytes, without zig-zag.

    Raise OverflowError if `n` is negative or does not fit 32 bits.
    """
    cdef uint8_t[10] scratch
    cdef int64_t number = as_i64(n, "unsigned varint")
    if not 0 <= number <= UINT32_MAX:
        raise OverflowError(
            f"unsigned varint: {number} does not fit an unsigned integer of 32 bits"
        )
    return copy_bytes(scratch, store_unsigned(scratch, number) - scratch)


def decode_varint(buf, Py_ssize_t offset=0):
    """Decode a zig-zag varint of 32 bits.

    A varint that is padded with zero bits to at most 5 bytes is accepted.

    Parameters
    ----------
    buf : bytes-like
        Bytes that contain the varint.
    offset : int, default 0
        The position of the first byte of the varint.

    Returns
    -------
    tuple of (int, int)
        The number, and the offset after the last byte of the varint.

    Raises
    ------
    FormatError
        If `buf` ends inside the varint, if the varint has more than 5 bytes, or if its number does
        not fit 32 bits.
    ValueError
        If `offset` is outside `buf`.
    """
    return decoded(buf, offset, 32, True, "varint")


def decode_varlong(buf, Py_ssize_t offset=0):
    """Decode a zig-zag varint of 64 bits, which has at most 10 bytes. See `decode_varint`."""
    return decoded(buf, offset, 64, True, "varlong")


def decode_unsigned_varint(buf, Py_ssize_t offset=0):
    """Decode an unsigned varint of 32 bits, which has at most 5 bytes. See `decode_varint`."""
    return decoded(buf, offset, 32, False, "unsigned varint")

"""The columns of decimals. Their bytes are the shortest big-endian two's complement."""

from __future__ import annotations

import sys
from array import array
from decimal import Decimal
from typing import TYPE_CHECKING

from kstore_core.errors import FormatError
from kstore_core.serdes.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["are_within", "read", "write"]

_WIDTH = 16
_SIGN_BYTES = r"^(?:\x00+([\x00-\x7f])|\xff+([\x80-\xff]))"
"""A pattern: bytes that only repeat the sign, then the first byte of the shortest form."""


def read(kind: Type, column: pa.Array) -> pa.Array:
    """Deserialise a binary column. Raise a FormatError if a value is not a decimal of this type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    filled = pc.fill_null(column, b"\0") if column.null_count else column
    sizes = pc.binary_length(filled)
    if len(filled) and not pc.all(pc.and_(pc.greater(sizes, 0), pc.less_equal(sizes, 16))).as_py():
        raise FormatError(f"a stored value does not have 1 to 16 bytes, as serdes.{kind} requires")
    negative = pc.greater_equal(pc.binary_slice(filled, 0, 1), b"\x80")
    signs = pc.binary_repeat(pc.if_else(negative, b"\xff", b"\0"), pc.subtract(_WIDTH, sizes))
    whole = pc.binary_join_element_wise(signs, filled, b"").cast(pa.binary(_WIDTH))
    numbers = _turned(whole, kind.arrow)
    if not are_within(kind, numbers):
        raise FormatError(f"a stored number has too many digits for serdes.{kind}")
    return pc.if_else(pc.is_null(column), None, numbers) if column.null_count else numbers


def write(kind: Type, column: pa.Array) -> pa.Array:
    """Serialise a column of the type of ``kind`` to a binary column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = _turned(column, pa.binary(_WIDTH)).cast(pa.binary())
    short = pc.replace_substring_regex(whole, pattern=_SIGN_BYTES, replacement=r"\1\2")
    return pc.if_else(pc.is_null(column), None, short) if column.null_count else short


def are_within(kind: Type, numbers: pa.Array) -> bool:
    """Return True if no number of a column of decimals has more digits than ``kind`` allows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    most = Decimal((0, (9,) * kind.precision, -kind.scale))
    high, low = (pa.scalar(bound, kind.arrow) for bound in (most, most.copy_negate()))
    return not pc.any(pc.or_(pc.greater(numbers, high), pc.less(numbers, low))).as_py()


def _turned(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Reverse the bytes of each value of 16 bytes, if this machine is little-endian.

    The result has no validity bits, so nulls are lost.
    """
    import pyarrow as pa

    words = array("q")
    if len(column):
        begin = column.offset * _WIDTH
        words.frombytes(memoryview(column.buffers()[1])[begin : begin + len(column) * _WIDTH])
    if sys.byteorder == "little":
        words.byteswap()
        words[0::2], words[1::2] = words[1::2], words[0::2]
    return pa.Array.from_buffers(to, len(column), [None, pa.py_buffer(words)])

"""Messages of the Arrow IPC format, each with a record batch of one row.

A message begins with FF FF FF FF and the length of its metadata, little-endian. The metadata is a
table of FlatBuffers, in which the length of the body is an int64.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kstore_core.errors import FormatError
from kstore_core.serdes.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["message_length", "row_of", "rows_of"]

_PREFIX = struct.Struct("<Ii")
_UINT16, _INT32, _INT64 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<q")
_CONTINUES = 0xFFFFFFFF
_BODY_LENGTH_SLOT = 10  # in the vtable of a message
_END = _PREFIX.pack(_CONTINUES, 0)


def row_of(kind: Type, data: bytes) -> Any:
    """Return the row of a message as pyarrow returns it. A damaged message raises a FormatError."""
    import pyarrow as pa

    return rows_of(kind, pa.array([bytes(data)], pa.binary()))[0].as_py()


def rows_of(kind: Type, column: pa.Array) -> pa.Array:
    """Read the messages of a column without nulls as one stream, and return a column of structs.

    Raise a FormatError if a message is damaged, does not have one row, or has other fields.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(column)], column), b"")[0]
        view, place = memoryview(joined.as_buffer()), 0
        for size in pc.binary_length(column).to_pylist():
            if message_length(view, place) != size:
                raise pa.ArrowInvalid("a value is longer or shorter than its message")
            place += size
        schema = pa.schema(list(kind.arrow))
        stream = pa.py_buffer(b"".join([schema.serialize(), view, _END]))
        table = pa.ipc.open_stream(stream).read_all()
        table.validate(full=True)
        if [len(chunk) for chunk in table.column(0).chunks] != [1] * len(column):
            raise pa.ArrowInvalid("a message does not have one row")
        (batch,) = table.combine_chunks().to_batches()
        return pa.StructArray.from_arrays(batch.columns, fields=list(kind.arrow))
    except (pa.ArrowException, OSError, struct.error, ValueError) as error:
        raise FormatError(f"a stored value is not an Arrow row of {kind}: {error}") from error


def message_length(data: memoryview, place: int) -> int:
    """Return the length of the message that begins at ``place``, including metadata and body."""
    mark, size = _PREFIX.unpack_from(data, place)
    if mark != _CONTINUES or size <= 0:
        raise ValueError("a message does not begin with FF FF FF FF and a length")
    start = place + _PREFIX.size
    table = start + _INT32.unpack_from(data, start)[0]
    vtable = table - _INT32.unpack_from(data, table)[0]
    slots, slot = _UINT16.unpack_from(data, vtable)[0], _BODY_LENGTH_SLOT
    at = _UINT16.unpack_from(data, vtable + slot)[0] if slots > slot else 0
    body = _INT64.unpack_from(data, table + at)[0] if at else 0
    return int(_PREFIX.size + size + body)

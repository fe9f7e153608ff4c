"""The columns of structs as messages of the Arrow IPC format, each a record batch of one row."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kstore_core.arrow.nulls import around_nulls
from kstore_core.serdes.ipc_messages import message_length, rows_of
from kstore_core.serdes.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read", "write"]


def write(kind: Type, column: pa.Array) -> pa.Array:
    """Serialise a column of structs to a binary column."""
    import pyarrow as pa

    return around_nulls(column, pa.binary(), functools.partial(_written, kind))


def read(kind: Type, column: pa.Array) -> pa.Array:
    """Deserialise a binary column. Raise a FormatError if a value is not a row of this type."""
    return around_nulls(column, kind.arrow, functools.partial(rows_of, kind))


def _written(kind: Type, column: pa.Array) -> pa.Array:
    """Write the rows of a column as one stream, and divide the stream into its messages."""
    import pyarrow as pa

    schema = pa.schema(list(kind.arrow))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        table = pa.Table.from_arrays(column.flatten(), schema=schema)
        stream.write_table(table, max_chunksize=1)
    data = sink.getvalue()
    view = memoryview(data)
    ends = [message_length(view, 0)]  # The first message is the schema.
    for _ in range(len(column)):
        ends.append(ends[-1] + message_length(view, ends[-1]))
    buffers = [None, pa.array(ends, pa.int64()).buffers()[1], data]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers).cast(pa.binary())

"""Functions that encode and decode the output of an epoch.

A shard stores the output of its last epoch, so that a replay of the epoch returns the same output.
"""

from __future__ import annotations

import pyarrow as pa

from kstore_core.errors import StateError
from kstore_core.spark.live.epochs import Epoch

__all__ = ["OUTPUT_NOTE", "RESCALED_NOTE", "decode_output", "encode_output"]

OUTPUT_NOTE = "epoch_output"
"""The metadata key under which a shard stores the output of its last epoch."""

RESCALED_NOTE = "rescaled"
"""The metadata key of a shard that a rescale made. A rescale does not move stored outputs."""


def encode_output(epoch: Epoch, output: pa.RecordBatch, by: str) -> bytes:
    """Encode the output of an epoch as an Arrow stream.

    The metadata of the stream names the epoch, and the function ``by`` that made the output.
    """
    about = {"query": epoch.query, "epoch": str(epoch.number), "by": by}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, output.schema.with_metadata(about)) as writer:
        writer.write_batch(output)
    return bytes(sink.getvalue())


def decode_output(
    epoch: Epoch, note: bytes | None, schema: pa.Schema, by: str, where: str
) -> pa.RecordBatch:
    """Decode the stored output of an epoch that the shard has already applied.

    ``note`` is the stored output, ``by`` the name of the function, and ``where`` the path of the
    shard. Raises StateError if ``note`` is None, or if the output belongs to another epoch, another
    function or another schema.
    """
    if note is None:
        raise StateError(
            f"{where} already contains {epoch}, but not the output of this epoch, which a replay "
            "must return; pass another root, and start the query with a new checkpoint"
        )
    with pa.ipc.open_stream(note) as reader:
        table = reader.read_all()
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    query, number, maker = about.get("query"), about.get("epoch"), about.get("by")
    if (query, number) != (epoch.query, str(epoch.number)):
        raise StateError(
            f"{where} already contains {epoch}, but the output that is stored there belongs to "
            f"epoch {number} of the query {query!r}, so the output of {epoch} cannot be returned "
            "again. Run only one query at a time on a state"
        )
    if maker != by:
        raise StateError(
            f"{where} already contains {epoch}. The stored output is from the function {maker}, "
            f"but this query has the function {by}. The state of a store belongs to one function "
            "of one query. Use another root for a second function. If the function was renamed, "
            "run the query once with the earlier name"
        )
    if not table.schema.equals(schema, check_metadata=False):
        raise StateError(
            f"Spark replays {epoch}, but the output of this epoch that is stored in {where} has "
            f"another schema: {_fields(table.schema)}, not {_fields(schema)}. Run the query once "
            "with the earlier schema, and then change the schema"
        )
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.RecordBatch.from_arrays(batches[0].columns, schema=schema)


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

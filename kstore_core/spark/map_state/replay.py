"""The output of an epoch, committed with its rows, so that a replay returns the same."""

from __future__ import annotations

import pyarrow as pa

from kstore_core.errors import StateError
from kstore_core.spark.live.epochs import Epoch

__all__ = ["OUTPUT_NOTE", "decode_output", "encode_output"]

OUTPUT_NOTE = "epoch_output"
"""The note of a shard with the output of its last epoch."""


def encode_output(epoch: Epoch, output: pa.RecordBatch, by: str) -> bytes:
    """The note of an output: an Arrow stream that names the epoch and the function."""
    about = {"query": epoch.query, "epoch": str(epoch.number), "by": by}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, output.schema.with_metadata(about)) as writer:
        writer.write_batch(output)
    return bytes(sink.getvalue())


def decode_output(
    epoch: Epoch, note: bytes | None, schema: pa.Schema, by: str, where: str
) -> pa.RecordBatch:
    """The output of an epoch that the shard contains.

    A StateError if the note is missing, or is of another epoch, another function or another schema.
    """
    if note is None:
        raise StateError(
            f"{where} contains {epoch} and has no note of its output; pass another root, and "
            "start the query with a new checkpoint"
        )
    with pa.ipc.open_stream(note) as reader:
        table = reader.read_all()
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    query, number, maker = about.get("query"), about.get("epoch"), about.get("by")
    if (query, number) != (epoch.query, str(epoch.number)):
        raise StateError(
            f"{where} contains {epoch}, and its note is what epoch {number} of {query!r} "
            "gave, so the former cannot be given again. Run a state by one query at a time"
        )
    if maker != by:
        raise StateError(
            f"{where} contains {epoch}, in which {maker} worked on it, and now {by} does: a root "
            "and a store are those of one function of one query. Use another root for the second; "
            "or, if the function was renamed, start the query once under the earlier name"
        )
    if not table.schema.equals(schema, check_metadata=False):
        raise StateError(
            f"{where} contains {epoch}, which Spark asks for again, and its rows were made with "
            f"another schema: {_fields(table.schema)}; now it is {_fields(schema)}. Start the "
            "query once with the earlier schema, and change it after that"
        )
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.RecordBatch.from_arrays(batches[0].columns, schema=schema)


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

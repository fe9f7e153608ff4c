"""Which epoch a task works on, and what an epoch gave, kept to be given again.

A micro-batch of a stream is an epoch: Spark gives it again, with the same rows, when it does not
know whether it was done. A batch run is one too, whatever number of actions evaluates it. What an
epoch gave is committed in the engine batch of its writes, so the two are never apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kstore_core.errors import StateError

__all__ = ["BATCH", "OUTPUT_NOTE", "Epoch", "epoch_of_task", "kept", "recalled"]

BATCH = "batch"
"""What stands for the query id of batch runs."""

OUTPUT_NOTE = "epoch_output"
"""The note of a shard that holds what its last epoch gave."""

# Spark sets both for every task of a micro-batch, and documents neither.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One turn of a query.

    Attributes
    ----------
    query : str
        The id of a streaming query, which its checkpoint keeps; ``"batch"`` for batch runs.
    number : int
    """

    query: str
    number: int

    def __str__(self) -> str:
        if self.query == BATCH:
            return f"batch run {self.number}"
        return f"epoch {self.number} of the query {self.query}"


def epoch_of_task(run: int | None) -> Epoch:
    """The micro-batch that this task is part of, else the batch run.

    Parameters
    ----------
    run : int or None
        The number of the batch run; None where the DataFrame is a stream.

    Raises
    ------
    StateError
        It is a stream, and Spark does not tell the micro-batch.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    query = batch = None
    if task is not None:
        query = task.getLocalProperty(_QUERY_ID)
        batch = task.getLocalProperty(_BATCH_ID)
    if query and batch and batch.isdecimal():
        return Epoch(query, int(batch))
    if run is not None:
        return Epoch(BATCH, run)
    raise StateError(
        f"this task of a stream does not know its micro-batch: Spark set {_QUERY_ID}={query!r} and "
        f"{_BATCH_ID}={batch!r}, and map_state needs both to apply each once. Use a micro-batch "
        "trigger (processingTime or availableNow), or call map_state within foreachBatch"
    )


def kept(epoch: Epoch, output: pa.RecordBatch, by: str) -> bytes:
    """The output of an epoch and the name of who made it, as the bytes of a note."""
    said = {"query": epoch.query, "epoch": str(epoch.number), "by": by}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, output.schema.with_metadata(said)) as writer:
        writer.write_batch(output)
    return bytes(sink.getvalue())


def recalled(
    epoch: Epoch, note: bytes | None, schema: pa.Schema, by: str, where: str
) -> pa.RecordBatch:
    """The output of an epoch that the shard contains already.

    Raises
    ------
    StateError
        What is kept is not of this epoch, was made by somebody else, or is of another schema.
    """
    if note is None:
        raise StateError(
            f"{where} contains {epoch} and keeps nothing of what it gave; pass another root, and "
            "start the query with a new checkpoint"
        )
    with pa.ipc.open_stream(note) as reader:
        table = reader.read_all()
    said = {key.decode(): what.decode() for key, what in (table.schema.metadata or {}).items()}
    query, number, maker = said.get("query"), said.get("epoch"), said.get("by")
    if (query, number) != (epoch.query, str(epoch.number)):
        raise StateError(
            f"{where} contains {epoch}, and what it keeps is what epoch {number} of {query!r} "
            "gave, so the former cannot be given again. Run a state by one query at a time"
        )
    if maker != by:
        raise StateError(
            f"{where} contains {epoch}, in which {maker} worked on it, and now {by} is to: a root "
            "and a store are those of one function of one query. Use another root for the second; "
            "or, if the function was renamed, start the query once under the name of before"
        )
    if not table.schema.equals(schema, check_metadata=False):
        raise StateError(
            f"{where} contains {epoch}, which Spark asks for again, and its rows were made with "
            f"another schema: {_fields(table.schema)}; now it is {_fields(schema)}. Start the "
            "query once with the schema of before, and change it after that"
        )
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.RecordBatch.from_arrays(batches[0].columns, schema=schema)


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""The rows in which records pass between sources, sub-topologies and sinks.

The columns of a row are those of `SCHEMA`. A row without a topic is not a record. Each shard gets
such a row in each micro-batch, with its number in the column ``partition``, so that Spark runs a
task for the shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core import arrow
from kstore_core.codec import Headers
from kstore_core.errors import SpecError
from kstore_core.processing import Input
from kstore_core.processing.queues import Output
from kstore_core.spark.columns.arrow import combined, integers
from kstore_core.spark.columns.headers import headers_column, headers_list

__all__ = ["SCHEMA", "inputs_of", "rows_of"]

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", arrow.headers_type()),
    ]
)
"""The columns of a row. The timestamp is in ms."""

_ORDER = [(name, "ascending") for name in ("topic", "partition", "offset")]


def inputs_of(rows: pa.Table, shard: int, next_offsets: dict[str, int]) -> Iterator[Input]:
    """Yield the records of rows, sorted by topic, partition and offset.

    If a source has no columns ``partition`` and ``offset``, the partition of a record is ``shard``,
    and its offset is the next offset of the topic in ``next_offsets``. The function advances this
    next offset. Such records keep the order of the rows.

    Raises
    ------
    SpecError
        A row has no timestamp, or a timestamp before 1970.
    """
    records = rows.filter(pc.is_valid(rows["topic"]))
    records = records.take(pc.sort_indices(records, _ORDER))
    column = {name: combined(records[name], name) for name in SCHEMA.names}
    times = column["timestamp"]
    if times.null_count or (len(times) and pc.min(times).as_py() < 0):
        raise SpecError(
            f"{times.null_count or 'some'} records have no timestamp, or a timestamp before 1970; "
            "set the column 'timestamp' of each source"
        )
    headers = map(Headers.copy, headers_list(column["headers"]))  # a serde may add headers
    for topic, partition, offset, *content in zip(
        column["topic"].to_pylist(),
        column["partition"].fill_null(shard).to_pylist(),
        column["offset"].to_pylist(),
        times.to_pylist(),
        column["key"].to_pylist(),
        column["value"].to_pylist(),
        headers,
        strict=True,
    ):
        if offset is None:
            offset = next_offsets.get(topic, 0)
            next_offsets[topic] = offset + 1
        yield Input(topic, partition, offset, *content)


def rows_of(outputs: Sequence[Output], shard: int, first: int) -> pa.RecordBatch:
    """Return the rows of records that sinks sent.

    The partition of a row is the number of the shard that sent the record. The offset is the number
    of the record among all records of this shard; the first record of ``outputs`` has the number
    ``first``. So partition and offset together identify a record, and the offsets give the order of
    the records of a shard.
    """
    topics, keys, values, times, headers = zip(*outputs, strict=True) if outputs else ((),) * 5
    columns = [
        topics,
        repeat(shard, len(outputs)),
        [number for number, _ in zip(count(first), outputs, strict=False)],
        times,
        keys,
        values,
    ]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, headers_column(headers)], schema=SCHEMA)


def shard_of(numbers: pa.ChunkedArray) -> int:
    """Return the number of the shard to which Spark has routed all rows of a task."""
    return int(integers(combined(numbers, "shard"))[0])

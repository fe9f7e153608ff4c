"""Rows of an epoch on their way to shards: written by tasks as they come, read in order later.

::

    <root>/live/inbox/<query>-<epoch>/<task>-<attempt>.arrow

A sink cannot ask for a distribution of rows, so a task may hold rows of every shard.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstore_core import arrow
from kstore_core.errors import SpecError
from kstore_core.spark.columns import combined, millis, serialized
from kstore_core.spark.partitioning import shards_of

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

__all__ = ["Inbox", "log_batch", "shard_tables"]


@dataclass(frozen=True, slots=True)
class Inbox:
    """The rows of one epoch.

    Attributes
    ----------
    path : Path
        Its directory.
    """

    path: Path

    @classmethod
    def of(cls, live: Path, query: str, epoch: int) -> Inbox:
        """That of an epoch."""
        return cls(live / "inbox" / f"{query}-{epoch}")

    def write(self, task: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
        """Write the batches of a task; the name of their file."""
        self.path.mkdir(parents=True, exist_ok=True)
        name = f"{task:06}-{uuid.uuid4().hex}.arrow"
        with pa.OSFile(str(self.path / name), "wb") as file, pa.ipc.new_file(file, schema) as rows:
            for batch in batches:
                rows.write_batch(batch)
        return name

    def read(self, names: Iterable[str]) -> pa.Table:
        """The rows of these files, in the order of their tasks."""
        tables = []
        for name in sorted(names):
            with pa.memory_map(str(self.path / name)) as file, pa.ipc.open_file(file) as rows:
                tables.append(rows.read_all())
        return pa.concat_tables(tables)

    def clear(self) -> None:
        """Remove the files of this epoch, and of those before that were given up."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def log_schema(spec: StoreSpec, names: Iterable[str]) -> pa.Schema:
    """The columns of the rows in an inbox, of a DataFrame with these columns."""
    kinds = {
        "shard": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "timestamp": pa.int64(),
        "headers": arrow.headers_type(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
    given = {*names, "shard"} - ({"headers"} if not spec.format.headers else set())
    if "offset" not in given:
        given -= {"topic", "partition"}
    return pa.schema([(name, kind) for name, kind in kinds.items() if name in given])


def log_batch(
    batch: pa.RecordBatch, spec: StoreSpec, schema: pa.Schema, *, by_key: bool, partitions: int
) -> pa.RecordBatch:
    """A batch of a changelog with the shard of each row, serialised, times in ms.

    Raises
    ------
    SpecError
        Rows without a key, a time or a partition.
    """
    columns = {name: batch.column(name) for name in batch.schema.names}
    needed = ["key", "timestamp"] + ([] if by_key else ["partition"])
    for name in needed:
        missing = columns[name].null_count
        if missing:
            raise SpecError(
                f"{missing} of {batch.num_rows} records have no {name}; filter them out, nothing "
                "of the epoch was written"
            )
    columns["key"] = serialized(spec.key, columns["key"])
    columns["value"] = serialized(spec.value, columns["value"])
    columns["timestamp"] = pa.array(millis(columns["timestamp"])[0])
    if by_key:
        columns["shard"] = pa.array(shards_of(columns["key"], partitions))
    else:
        columns["shard"] = columns["partition"]
    return pa.record_batch([columns[f.name].cast(f.type) for f in schema], schema=schema)


def shard_tables(rows: pa.Table, partitions: int) -> Iterator[pa.Table | None]:
    """The rows of each shard in turn, in their order; None for a shard without any.

    Raises
    ------
    SpecError
        Rows of a partition that the store does not have.
    """
    if "offset" not in rows.column_names:
        rows = rows.append_column("arrival", pa.array(np.arange(rows.num_rows)))
    shards = np.asarray(combined(rows["shard"], "shard"))
    outside = shards[(shards < 0) | (shards >= partitions)]
    if len(outside):
        raise SpecError(
            f"{len(outside)} records have the partition {outside[0]}, and the store has "
            f"partitions={partitions}, from 0 to {partitions - 1}. Pass as many as the topic has, "
            "or partition_by='key' to place them anew"
        )
    order = np.argsort(shards, kind="stable")
    sorted_rows = rows.take(pa.array(order))
    ends = np.cumsum(np.bincount(shards, minlength=partitions))
    for begin, end in zip([0, *ends], ends, strict=False):
        yield sorted_rows.slice(begin, end - begin) if end > begin else None

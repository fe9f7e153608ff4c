"""What the tasks of the sink leave for its commit, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from kstore_core.spark.root.inbox import Inbox
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.frames import spark_schema
from kstore_core.spark.source.datasource import KStoreSource
from kstore_core.spark.stream.sink import Received, StreamSink
from tests.spark.stream.shard_epochs import QUERY


def sink_of(options: dict[str, str], rows: pa.Table, overwrite: bool = False) -> StreamSink:
    """The sink that Spark makes of options, for rows like these."""
    made = KStoreSource(options).streamWriter(spark_schema(rows.schema), overwrite)
    assert isinstance(made, StreamSink)
    return made


def received(root: Path | Root, epoch: int, tasks: Iterable[pa.Table]) -> list[Any]:
    """What tasks with these rows answer."""
    at = root if isinstance(root, Root) else Root.at(root)
    inbox = Inbox(at.storage, QUERY, epoch)
    messages = []
    for number, rows in enumerate(tasks):
        batches = (batch for batch in rows.to_batches(7) if batch.num_rows)
        messages.append(Received(QUERY, inbox.write(number, batches)))
    return messages

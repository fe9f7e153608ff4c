"""The reading of the records of a Kafka partition as columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.codec import RecordColumns

__all__ = ["read_partition"]

_AT_ONCE = 1000
"""The number of messages that are taken from the library's queue at a time.

More messages would not fit into the CPU's cache.
"""


def read_partition(
    cluster: Cluster, topic: str, partition: int, from_offset: int, end: int
) -> Iterator[RecordColumns]:
    """Yield the committed records with ``from_offset <= offset < end``.

    Raises
    ------
    InconsistentStateError
        Records in this range have expired.
    CorruptionError
        The checksum of a batch is wrong.
    EngineError
        The brokers do not answer in time, or reject the request.
    """
    doing = f"the changelog {topic}-{partition} cannot be read"
    consumer = cluster.consumer()
    try:
        cluster.trouble = None
        consumer.assign([cluster.library.TopicPartition(topic, partition, from_offset)])
        next_offset, moved_at = from_offset, time.monotonic()
        while next_offset < end:
            # A call that does not wait returns at most the content of the consumer's queue. The
            # queue has a limit in bytes.
            messages = consumer.consume(_AT_ONCE, 0) or consumer.consume(1, 0.1)
            columns, reached = _columns(cluster, messages, doing, end)
            if reached > next_offset:
                next_offset, moved_at = reached, time.monotonic()
            elif cluster.is_refused or time.monotonic() > moved_at + cluster.timeout_s:
                raise cluster.error(None, doing)
            if len(columns):
                # Columns that are not packed would need three Python objects per record.
                yield columns.packed()
                moved_at = time.monotonic()
    finally:
        cluster.close(consumer)


def _columns(
    cluster: Cluster, messages: list[Any], doing: str, end: int
) -> tuple[RecordColumns, int]:
    """Return the records of messages, and the offset up to which the log was read."""
    columns = RecordColumns()
    append, reached = columns.append, 0
    for message in messages:
        offset, error = message.offset(), message.error()
        if error is None:
            if offset >= end:
                return columns, end
            timestamp = message.timestamp()[1]
            append(offset, timestamp, message.key(), message.value(), message.headers())
            reached = offset + 1
        elif error.name() == "_PARTITION_EOF":
            reached = offset  # The offset is after control records, which are not delivered.
        elif cluster.passes(error):
            cluster.trouble = error
        else:
            raise cluster.error(error, doing)
    return columns, reached

"""Functions by which a worker reads the records of a range of offsets as Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstore_core.arrow import headers_type
from kstore_core.changelog.kafka.topics import partitions_of
from kstore_core.errors import FormatError, InconsistentStateError
from kstore_core.spark.kafka.offsets import OffsetRange
from kstore_core.spark.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

    from kstore_core.changelog.kafka.client import Cluster

__all__ = ["BATCH_ROWS", "arrow_schema", "read_range"]

_log = logging.getLogger("kstore_core.spark.kafka")

_AT_ONCE = 1000
"""The number of messages per call to librdkafka. More messages do not fit into the CPU's cache."""

BATCH_ROWS = 10_000
_BATCH_BYTES = 16 * 1024 * 1024
"""The size of a batch in bytes. A batch ends when it has this size or `BATCH_ROWS` rows."""

_EXPIRED = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
_GONE = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


def arrow_schema(*, headers: bool) -> pa.Schema:
    """Return the schema of a batch, which has the columns of Spark's own Kafka source.

    The schema has the column ``headers`` only if ``headers`` is true.
    """
    columns = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    return pa.schema(columns + [("headers", headers_type())] * headers)


def read_range(options: KafkaOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Read the records of a range of offsets, and yield them as Arrow batches.

    Some offsets of the range may have no record, because of compaction or transactions. Raises
    InconsistentStateError if records have expired or were deleted and ``failOnDataLoss`` is true.
    Raises CorruptionError if a checksum is wrong, and FormatError if a record's time does not fit
    into a Spark timestamp. Raises EngineError if the brokers do not answer in time, or if they
    refuse the request.
    """
    cluster = options.cluster()
    consumer = cluster.consumer(isolation=options.isolation)
    schema = arrow_schema(headers=options.headers)
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        for messages in _Reading(cluster, consumer, options, wanted):
            parts.append(_batch(messages, wanted, schema))
            rows, size = rows + len(messages), size + parts[-1].nbytes
            if rows >= BATCH_ROWS or size >= _BATCH_BYTES:
                yield from _joined(parts)
                parts, rows, size = [], 0, 0
        if parts:
            yield from _joined(parts)
    finally:
        cluster.close(consumer)


class _Reading:
    """An iterable of lists of messages. Together the lists contain the records of a range."""

    def __init__(
        self, cluster: Cluster, consumer: Consumer, options: KafkaOptions, wanted: OffsetRange
    ) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._options = options
        self._wanted = wanted
        self._position = wanted.begin
        self._failure = f"{wanted} cannot be read"

    def __iter__(self) -> Iterator[list[Any]]:
        cluster, consumer, end = self._cluster, self._consumer, self._wanted.end
        cluster.trouble = None
        self._go_to(self._wanted.begin)
        position, moved_at = self._position, time.monotonic()
        while self._position < end:
            # The first call does not wait. It returns only messages that librdkafka has queued.
            # If no message is queued, the second call waits for one message.
            messages = consumer.consume(_AT_ONCE, 0) or consumer.consume(1, 0.1)
            found = self._records(messages)
            if found:
                yield found
            self._check_deleted()
            if self._position > position or found:
                position, moved_at = self._position, time.monotonic()
            elif cluster.is_refused or time.monotonic() > moved_at + cluster.timeout_s:
                raise cluster.error(None, self._failure)

    def _go_to(self, offset: int) -> None:
        place = self._cluster.library.TopicPartition(
            self._wanted.topic, self._wanted.partition, offset
        )
        self._position = offset
        self._consumer.assign([place])

    def _records(self, messages: list[Any]) -> list[Any]:
        """Return the messages that are records of the range, and advance the position past them."""
        if not messages:
            return messages
        errors = [message.error() for message in messages]
        if any(errors):
            for message, error in zip(messages, errors, strict=True):
                if error is not None:
                    self._handle(error, message.offset())
            messages = [m for m, e in zip(messages, errors, strict=True) if e is None]
        if messages:
            self._position = max(self._position, messages[-1].offset() + 1)
            if self._position > self._wanted.end:
                messages = [m for m in messages if m.offset() < self._wanted.end]
        return messages

    def _handle(self, error: KafkaError, offset: int) -> None:
        name = error.name()
        if name == "_PARTITION_EOF":
            # The end of the partition may be after control records, which are not messages.
            self._position = max(self._position, offset)
        elif name in _EXPIRED:
            self._skip_expired()
        elif self._cluster.passes(error):
            self._cluster.trouble = error
        else:
            raise self._cluster.error(error, self._failure)

    def _skip_expired(self) -> None:
        place = self._cluster.library.TopicPartition(self._wanted.topic, self._wanted.partition)
        begin, _ = self._cluster.ask(
            self._consumer,
            lambda timeout: self._consumer.get_watermark_offsets(place, timeout=timeout),
            self._failure,
        )
        if begin <= self._position:  # The partition ends before the position: it was recreated.
            self._lose("the partition ends before the position", self._wanted.end)
        else:
            self._lose(f"the partition begins at {begin}", min(begin, self._wanted.end))

    def _check_deleted(self) -> None:
        """If librdkafka has reported an unknown topic, ask the brokers whether the topic exists.

        If the topic or its partition does not exist, report that records are missing.
        """
        trouble = self._cluster.trouble
        if trouble is None or trouble.name() not in _GONE:
            return
        self._cluster.trouble = None
        count = partitions_of(self._cluster, self._consumer, self._wanted.topic)
        if count is None or count <= self._wanted.partition:
            self._lose("the topic or its partition is missing", self._wanted.end)

    def _lose(self, why: str, offset: int) -> None:
        """Report that records are missing, and continue at ``offset``.

        If ``failOnDataLoss`` is true, raise an InconsistentStateError instead. ``why`` is the
        reason that the message states.
        """
        lost = (
            f"{self._wanted} at {self._cluster.servers} cannot be read: {why}, but the next offset "
            f"to read is {self._position}"
        )
        if self._options.fail_on_data_loss:
            raise InconsistentStateError(
                f"{lost}. Records have expired or were deleted. To read only the remaining "
                "records, pass failOnDataLoss=false"
            )
        _log.warning("%s; continuing at %d", lost, offset)
        self._go_to(offset)


def _joined(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Concatenate batches to one batch, or to several batches if a column would exceed 2 GiB."""
    whole: list[pa.RecordBatch] = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return whole


def _batch(messages: list[Any], wanted: OffsetRange, schema: pa.Schema) -> pa.RecordBatch:
    count = len(messages)
    kinds, times = zip(*[message.timestamp() for message in messages], strict=True)
    columns = [
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.repeat(pa.scalar(wanted.topic), count),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        pa.array([message.offset() for message in messages], pa.int64()),
        _timestamps(pa.array(times, pa.int64()), wanted),
        # Spark's number of a timestamp type is confluent-kafka's number minus 1.
        pc.subtract(pa.array(kinds, pa.int32()), pa.scalar(1, pa.int32())),
    ]
    if "headers" in schema.names:
        columns.append(_headers([message.headers() for message in messages]))
    return pa.record_batch(columns, schema=schema)


def _timestamps(times: pa.Array, wanted: OffsetRange) -> pa.Array:
    try:
        return pc.multiply_checked(times, pa.scalar(1000, pa.int64())).cast(
            pa.timestamp("us", tz="UTC")
        )
    except pa.ArrowInvalid as error:
        raise FormatError(
            f"the time of a record in {wanted} does not fit into a Spark timestamp, which stores "
            "microseconds in 64 bits; exclude the record's offset with startingOffsets and "
            "endingOffsets"
        ) from error


def _headers(lists: list[list[tuple[str, bytes | None]] | None]) -> pa.Array:
    """Return an Arrow column with each record's list of headers, null if the record has none."""
    pairs = list(chain.from_iterable(filter(None, lists)))
    header = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in pairs], pa.string()),
            pa.array([value for _, value in pairs], pa.binary()),
        ],
        fields=list(headers_type().value_type),
    )
    ends = accumulate((len(pairs) if pairs else 0 for pairs in lists), initial=0)
    missing = pa.array([not pairs for pairs in lists])
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), header, type=headers_type(), mask=missing
    )

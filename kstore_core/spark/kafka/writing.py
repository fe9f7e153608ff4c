"""The writers of ``format("kstore-kafka")``, which send rows to topics.

With the option ``transactionalId``, each task sends its rows in one transaction. The transaction
also commits an offset, for a consumer group of this task, with metadata that name the epoch, which
is the micro-batch or the batch job. A task that runs again finds the epoch in the metadata, and
sends nothing. Without the option, a task that runs again sends its rows again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kstore_core.arrow import headers_type
from kstore_core.changelog.kafka.writing import no_time_zero, pairs_of
from kstore_core.codec.arrow.encoder import encode_header_lists
from kstore_core.errors import SpecError, StateError
from kstore_core.spark.columns.arrow import millis
from kstore_core.spark.columns.headers import headers_list
from kstore_core.spark.kafka.write_options import KafkaWriteOptions
from kstore_core.spark.live.epochs import BATCH, Epoch, epoch_of_task
from kstore_core.spark.runtime.worker_errors import without_traceback

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer
    from pyspark.sql.types import StructType

    from kstore_core.changelog.kafka.client import Cluster

__all__ = ["KafkaBatchWriter", "KafkaStreamWriter", "check_columns"]

_DOING = "the rows were not sent"
_TEXTS = ("binary", "string")
_TYPES = {
    "key": _TEXTS,
    "value": _TEXTS,
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
}


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The message of a task: the number of the rows that it sent."""

    rows: int


class KafkaBatchWriter(DataSourceArrowWriter):
    """The writer for ``df.write``. Rows that were sent stay in the topics if the job fails."""

    def __init__(self, options: KafkaWriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options
        self._epoch = Epoch(BATCH + uuid.uuid4().hex, 0)

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of a task."""
        return _sent(self._options, self._epoch, iterator)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """The writer for ``df.writeStream``."""

    def __init__(self, options: KafkaWriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of a task in a micro-batch."""
        return _sent(self._options, epoch_of_task(None), iterator)


def check_columns(schema: StructType, options: KafkaWriteOptions) -> None:
    """Raise SpecError if the columns cannot be written, or if no topic is given."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    faults = [f"{name!r} is unknown" for name in types if name not in _TYPES]
    faults += [
        f"{name!r} is {types[name]}, not {' or '.join(kinds)}"
        for name, kinds in _TYPES.items()
        if name in types and types[name] not in kinds
    ]
    if "value" not in types:
        faults.append("'value' is missing")
    if "topic" not in types and options.topic is None:
        faults.append("'topic' is missing, and so is the option topic")
    if faults:
        raise SpecError(
            f'format("kstore-kafka") cannot write the DataFrame: {"; ".join(faults)}. Its columns '
            f"are {', '.join(_TYPES)}; all but value are optional"
        )


def _sent(options: KafkaWriteOptions, epoch: Epoch, batches: Iterator[pa.RecordBatch]) -> Sent:
    from pyspark import TaskContext

    task = TaskContext.get()
    number = 0 if task is None else task.partitionId()
    sender = _Sender(options, epoch, number)
    try:
        for batch in batches:
            sender.send(batch)
        return Sent(sender.end())
    finally:
        sender.close()


class _Sender:
    """The sender of the rows of a task; ``number`` is the number of the task's Spark partition."""

    def __init__(self, options: KafkaWriteOptions, epoch: Epoch, number: int) -> None:
        self._options = options
        self._epoch = epoch
        self._cluster: Cluster = options.cluster()
        self._error: KafkaError | None = None
        self._rows = 0
        self._digest = hashlib.sha256()
        self._known: dict[str, Any] | None = None
        prefix = options.transactional_id
        self._group = None if prefix is None else f"{prefix}-{number}"
        more = {"partitioner": "murmur2_random"}
        self._producer: Producer = self._cluster.producer(self._group, **more)
        self._in_transaction = False
        try:
            if self._group is not None:
                with self._cluster.explained(_DOING):
                    # End the transaction of an earlier attempt, so that the attempt cannot commit.
                    self._producer.init_transactions(self._cluster.timeout_s)
                self._known = self._committed()
        except BaseException:
            self.close()
            raise

    def send(self, batch: pa.RecordBatch) -> None:
        """Send rows if no earlier attempt has committed the rows of this epoch."""
        self._rows += batch.num_rows
        if self._group is not None:
            self._digest.update(_bytes_of(batch))
        if self._known is not None or not batch.num_rows:
            return
        if self._group is not None and not self._in_transaction:
            with self._cluster.explained(_DOING):
                self._producer.begin_transaction()
            self._in_transaction = True
        columns = {name: batch.column(name) for name in batch.schema.names}
        count = batch.num_rows
        nothing = [None] * count
        times: list[int] | None = None
        if "timestamp" in columns:
            if columns["timestamp"].null_count:
                raise SpecError(
                    f"{_DOING}: a row has a null in the column 'timestamp'; fill in the time of "
                    "each row, or leave out the column"
                )
            times = millis(columns["timestamp"])[0].tolist()
            if 0 in times:
                raise no_time_zero(_DOING)
        headers = headers_list(columns["headers"]) if "headers" in columns else nothing

        def column(name: str) -> list[Any]:
            return columns[name].to_pylist() if name in columns else nothing

        topics = column("topic") if "topic" in columns else [self._options.topic] * count
        for row, (topic, partition, key, value, pairs) in enumerate(
            zip(topics, column("partition"), column("key"), column("value"), headers, strict=True)
        ):
            topic = topic or self._options.topic
            if topic is None:
                raise SpecError(
                    f"{_DOING}: a row has a null in the column 'topic'; fill in the topic of each "
                    "row, or set the option 'topic'"
                )
            self._produce(
                topic,
                value,
                key,
                on_delivery=self._delivered,
                headers=None if pairs is None else pairs_of(pairs, _DOING),
                **({} if partition is None else {"partition": partition}),
                **({} if times is None else {"timestamp": times[row]}),
            )
        self._producer.poll(0)
        self._check()

    def _produce(self, *args: Any, **given: Any) -> None:
        while True:
            try:
                with self._cluster.explained(_DOING):
                    self._producer.produce(*args, **given)
                return
            except BufferError:
                self._producer.poll(0.1)  # The library's queue is full.
                self._check()

    def end(self) -> int:
        """Wait for the brokers, commit, and return the number of the rows that this task sent."""
        if self._known is not None:
            if self._known["digest"] != self._digest.hexdigest():
                raise StateError(
                    f"{self._group} has already written {self._epoch}, but with rows that differ "
                    "from the rows of this attempt, so kstore cannot send the epoch again. Leave "
                    "out transactionalId, or write a DataFrame whose partitions keep their rows "
                    "when Spark repeats a micro-batch. The output of a source or of map_state is "
                    "such a DataFrame"
                )
            return 0
        self._producer.flush(self._cluster.timeout_s + 5)
        self._check()
        if self._in_transaction:
            with self._cluster.explained(_DOING):
                self._commit()
            self._in_transaction = False
        return self._rows

    def _commit(self) -> None:
        about = {
            "query": self._epoch.query,
            "epoch": self._epoch.number,
            "digest": self._digest.hexdigest(),
        }
        consumer = self._cluster.group(str(self._group))
        try:
            place: Any = self._cluster.library.TopicPartition(
                str(self._options.topic), 0, 1, metadata=json.dumps(about)
            )
            metadata = consumer.consumer_group_metadata()
            limit = self._cluster.timeout_s
            self._producer.send_offsets_to_transaction([place], metadata, limit)
            self._producer.commit_transaction(limit)
        finally:
            self._cluster.close(consumer)

    def _committed(self) -> dict[str, Any] | None:
        """Return the metadata that an earlier attempt has committed for this epoch, or None."""
        consumer = self._cluster.group(str(self._group))
        try:
            place = self._cluster.library.TopicPartition(str(self._options.topic), 0)
            (found,) = self._cluster.ask(
                consumer, lambda limit: consumer.committed([place], limit), _DOING
            )
        finally:
            self._cluster.close(consumer)
        with suppress(ValueError):
            about: dict[str, Any] = json.loads(found.metadata or "")
            if about["query"] == self._epoch.query:
                if about["epoch"] == self._epoch.number:
                    return about
                if about["epoch"] > self._epoch.number:
                    raise StateError(
                        f"{self._group} has already written epoch {about['epoch']}, but Spark runs "
                        f"{self._epoch}, so the checkpoint is older than the topic. Start the "
                        "query with a new checkpoint, or with a newer copy of this checkpoint"
                    )
        return None

    def close(self) -> None:
        """Abort an open transaction, and close the producer."""
        if self._in_transaction:
            self._in_transaction = False
            with suppress(self._cluster.library.KafkaException):
                self._producer.abort_transaction(5.0)
        self._cluster.close(self._producer)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None and self._error is None:
            self._error = error

    def _check(self) -> None:
        if self._error is not None:
            raise self._cluster.error(self._error, _DOING)


def _bytes_of(batch: pa.RecordBatch) -> bytes:
    """Return bytes that depend only on the rows, and not on the buffers of their columns."""
    parts: list[bytes] = []
    for column in batch.columns:
        if pa.types.is_list(column.type):
            column = encode_header_lists(column.cast(headers_type()), len(column))
        if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            lengths = pc.binary_length(column).fill_null(-1)
            parts += [
                lengths.to_numpy().tobytes(),
                *column.cast(pa.binary()).drop_null().to_pylist(),
            ]
        else:
            parts.append(repr(column.to_pylist()).encode())
    return b"".join(parts)

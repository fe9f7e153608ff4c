"""The changelogs in Kafka, each of which is one partition of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.changelog.handle import LogHandle
from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.reading import read_partition
from kstore_core.changelog.kafka.topics import partitions_of
from kstore_core.changelog.kafka.writing import PartitionWriter
from kstore_core.changelog.topic import check_topic
from kstore_core.codec import RecordColumns
from kstore_core.errors import (
    EngineLockedError,
    KStoreError,
    SpecError,
    StateError,
)
from kstore_core.system.interrupts import interruptible

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer


__all__ = ["KafkaChangelog"]


class KafkaChangelog(LogHandle):
    """One partition of a changelog topic in Kafka.

    When a commit returns, its records are in all in-sync replicas. Only one process at a time may
    write to the partition. The user must ensure this, because Kafka stops a second writer only if
    both writers have the same transactional id.

    Parameters
    ----------
    servers : str
        The bootstrap brokers as ``host:port``, separated by commas.
    topic : str
        The name of an existing topic. `KafkaChangelogs` can create topics.
    partition : int
    settings : mapping of str to object, optional
        Settings of the Kafka clients by librdkafka's names, such as ``security.protocol``.
    read_only : bool
        If True, the log can only be read.
    linger_bytes : int
        The maximum size in bytes of the queued keys, values and headers. Above this size the log
        sends the queued records before the commit.
    timeout_s : float
        The time in seconds after which an operation fails if the brokers do not answer.
    producer : confluent_kafka.Producer, optional
        A transactional producer of the caller. The log sends the records in the caller's
        transaction, and readers get the records after the caller has committed the transaction.

    Attributes
    ----------
    topic : str
    partition : int
    read_only : bool

    Raises
    ------
    EngineUnavailableError
        confluent-kafka is not installed.
    SpecError
        The topic, the partition or a setting is not valid.
    StateError
        The topic or the partition does not exist.
    EngineLockedError
        A transaction of another producer did not end in time.
    EngineError
        The brokers cannot be reached, or reject a request.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partition: int = 0,
        *,
        settings: Mapping[str, Any] | None = None,
        read_only: bool = False,
        linger_bytes: int = 16 * 1024 * 1024,
        timeout_s: float = 30.0,
        producer: Producer | None = None,
    ) -> None:
        if partition < 0:
            raise SpecError(f"the partition of {topic} must be 0 or above, not {partition}")
        self.topic = check_topic(topic)
        self.partition = partition
        self._cluster = Cluster(servers, settings, timeout_s)
        super().__init__(
            f"{topic}-{partition} at {self._cluster.servers}",
            read_only=read_only,
            linger_bytes=linger_bytes,
        )
        self._consumer = self._cluster.consumer()
        self._writer: PartitionWriter | None = None
        try:
            if not read_only:
                self._writer = PartitionWriter(self._cluster, topic, partition, producer)
            with interruptible():  # Ctrl-C must end the wait for brokers that cannot be reached.
                self._check_topic()
                if not read_only:
                    self._wait_for_transactions()
        except BaseException:
            self._close_clients()
            raise
        self._is_open()

    @property
    def start_offset(self) -> int:
        """The lowest offset that may have a record; records at lower offsets have expired."""
        return self._offsets()[0]

    @property
    def high_watermark(self) -> int:
        """The offset that follows the last record that a reader gets.

        Each access sends a request to the brokers. If a transaction is open, the offset is at most
        the offset of its first record.
        """
        return self._offsets()[1]

    def commit(self) -> int:
        """Send the queued records, and return the offset after the last record.

        The call returns when all in-sync replicas have acknowledged the records.

        Raises
        ------
        UnsupportedError
            A record has the timestamp 0, or a header whose key has a NUL. confluent-kafka cannot
            send such a record unchanged. The records stay in the queue until `discard` is called.
        EngineLockedError
            Another producer now writes to the partition.
        EngineError
            The brokers rejected records, or did not acknowledge all records in time; the message
            has the reason. The records stay in the queue, and a later commit sends them again in
            the same order. The topic may then have some records twice, but a restore has the same
            result. If the producer cannot continue, the log is closed.
        """
        self._check_writer()
        with self._guard:
            end = self._send_pending()
        return self.high_watermark if end is None else end

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """Return the records from an offset (inclusive) up to the high watermark (exclusive).

        The high watermark is read at this call. See also `Changelog.read`.

        Raises
        ------
        InconsistentStateError
            The log ends before `from_offset`: either this is not the expected log, or the log has
            lost records. Or records expired during the read.
        CorruptionError
            The checksum of a batch is wrong.
        EngineError
            The brokers do not answer in time, or reject the request.
        """
        start, end = self._offsets()
        begin = max(start, from_offset or 0)
        self._check_reaches(from_offset or 0, end)
        return read_partition(self._cluster, self.topic, self.partition, begin, end)

    def close(self) -> None:
        """Close the log and its Kafka clients. Queued records are discarded.

        A second close does nothing.
        """
        self._open = False
        self._close_clients()

    def _close_clients(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._cluster.close(self._consumer)

    def _offsets(self) -> tuple[int, int]:
        self._check()
        return self._offsets_for(self._consumer)

    def _offsets_for(self, consumer: Consumer) -> tuple[int, int]:
        """Return the start offset, and the offset after the last record that a consumer gets."""
        place = self._cluster.library.TopicPartition(self.topic, self.partition)
        found: tuple[int, int] = self._cluster.ask(
            consumer,
            lambda timeout: consumer.get_watermark_offsets(place, timeout=timeout),
            f"the offsets of the changelog {self.topic}-{self.partition} are not known",
        )
        return found

    def _send_pending(self) -> int | None:
        if not len(self._pending):
            return None
        assert self._writer is not None
        try:
            end = self._writer.send(self._pending)
        except KStoreError:
            if self._writer.lost:
                self.close()
            raise
        self._pending = RecordColumns()
        return end

    def _check_topic(self) -> None:
        count = partitions_of(self._cluster, self._consumer, self.topic)
        if count is None:
            raise StateError(
                f"there is no changelog topic {self.topic} at {self._cluster.servers}. Check the "
                "application ID and the store's name, or create the topic: pass partitions= to "
                "KafkaChangelogs"
            )
        if self.partition >= count:
            raise StateError(
                f"there is no partition {self.partition} of {self.topic} at "
                f"{self._cluster.servers}: the topic has {count} partitions, but needs one for "
                "each task. Check the partition and the topic"
            )

    def _wait_for_transactions(self) -> None:
        """Wait until all transactions of other producers have ended.

        Raises
        ------
        EngineLockedError
            A transaction did not end in time.
        """
        everything = self._cluster.consumer(isolation="read_uncommitted")
        try:
            end = self._offsets_for(everything)[1]
        finally:
            self._cluster.close(everything)
        deadline = time.monotonic() + self._cluster.timeout_s
        while (committed := self._offsets_for(self._consumer)[1]) < end:
            if time.monotonic() > deadline:
                raise EngineLockedError(
                    f"{self._name}: a transaction of another producer, from offset {committed} on, "
                    f"has not ended within {self._cluster.timeout_s:g} s. Stop that producer, and "
                    "wait until its transaction times out"
                )
            time.sleep(0.1)

    def _check(self) -> None:
        super()._check()
        self._check_process()

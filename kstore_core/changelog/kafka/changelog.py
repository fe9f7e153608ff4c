"""A changelog in Kafka: one partition of a topic, through confluent-kafka."""

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
    from confluent_kafka import Consumer


__all__ = ["KafkaChangelog"]


class KafkaChangelog(LogHandle):
    """One partition of a changelog topic in Kafka.

    After a commit its records are in all in-sync replicas. Only one process at a time may write:
    unlike the lock of a directory, Kafka does not stop a second writer.

    Parameters
    ----------
    servers : str
        The bootstrap brokers: ``host:port``, separated by commas.
    topic : str
        It must exist; `KafkaChangelogs` creates topics.
    partition : int
    settings : mapping of str to object, optional
        By librdkafka's names: ``security.protocol``, ``compression.type``, …
    read_only : bool
        Send nothing.
    linger_bytes : int
        The limit for keys, values and headers that wait for a commit; more are sent earlier.
    timeout_s : float
        The time without an answer of the brokers after which an operation fails.

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
        A bad topic, partition or setting.
    StateError
        The topic or partition does not exist.
    EngineLockedError
        Another producer's transaction did not end in time.
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
    ) -> None:
        if partition < 0:
            raise SpecError(f"partition {partition} of {topic}; 0 or above is needed")
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
                self._writer = PartitionWriter(self._cluster, topic, partition)
            with interruptible():  # brokers may be unreachable
                self._check_topic()
                if not read_only:
                    self._wait_for_transactions()
        except BaseException:
            self._close_clients()
            raise
        self._is_open()

    @property
    def start_offset(self) -> int:
        """The first offset that may exist; earlier records have expired."""
        return self._offsets()[0]

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that a reader gets; the brokers are asked each time.

        It is before the first record of an open transaction.
        """
        return self._offsets()[1]

    def commit(self) -> int:
        """Send the records that wait; returns the high watermark once all in-sync replicas ack.

        Raises
        ------
        UnsupportedError
            A record has the timestamp 0, or a NUL in a header's key, which the library would
            change. The records wait until `discard`.
        EngineLockedError
            Another producer has taken over.
        EngineError
            The brokers did not acknowledge all records in time, or rejected them; the text has the
            reason. The records still wait, and a later commit sends them in the same order. The
            topic may then have some of them twice, which restores the same state. If the producer
            cannot continue, the log is closed.
        """
        self._check_writer()
        with self._guard:
            end = self._send_pending()
        return self.high_watermark if end is None else end

    def read(self, from_offset: int | None = None) -> Iterator[RecordColumns]:
        """Return the records from an offset (inclusive) up to the high watermark as of this call.

        Parameters
        ----------
        from_offset : int, optional
            Default, and for an earlier offset: the start offset.

        Yields
        ------
        RecordColumns
            Each has records; compaction and transactions leave gaps between offsets.

        Raises
        ------
        InconsistentStateError
            The log ends before `from_offset`: it is another log. Or records have expired meanwhile.
        CorruptionError
            Bytes do not fit their checksum.
        EngineError
            The brokers do not answer in time, or reject the request.
        """
        start, end = self._offsets()
        begin = max(start, from_offset or 0)
        self._check_reaches(from_offset or 0, end)
        return read_partition(self._cluster, self.topic, self.partition, begin, end)

    def close(self) -> None:
        """Close the clients; records that wait are discarded. A second close does nothing."""
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
        """Return the first offset, and the offset after the last record that this consumer gets."""
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
                f"no changelog topic {self.topic} at {self._cluster.servers}; KafkaChangelogs "
                "creates it with partitions=, or check the name of the application"
            )
        if self.partition >= count:
            raise StateError(
                f"no partition {self.partition} of {self.topic} at {self._cluster.servers}, which "
                f"has {count}: a topic needs one for each task"
            )

    def _wait_for_transactions(self) -> None:
        """Wait for the end of all transactions of other producers."""
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

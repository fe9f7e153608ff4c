"""Send columns of records to a Kafka partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.codec import RecordColumns
from kstore_core.errors import KStoreError, UnsupportedError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from kstore_core.codec import Headers

    _Outcomes = dict[KafkaError | None, Message]

__all__ = ["PartitionWriter"]

_FOLLOWING = frozenset({"_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL"})
"""The errors of records that fail because another record failed."""


class PartitionWriter:
    """Sends records in order and waits until all in-sync replicas have them.

    The producer stays in use after a failure: by the epoch in its batches, brokers reject late
    batches of the failed send, which would otherwise follow newer records.

    Attributes
    ----------
    lost : bool
        True if the producer cannot continue; the brokers may or may not have its records.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._doing = f"the changelog {topic}-{partition} was not written"
        self._producer = cluster.producer()  # needs half a second before it can send
        self.lost = False

    def send(self, records: RecordColumns) -> int | None:
        """Send records; returns the offset after the last one, or None if it is unknown.

        Raises
        ------
        UnsupportedError
            The library would change a record.
        EngineError
            Some records are not acknowledged. The brokers may have some of them, so all must be
            sent again. That is harmless, because their order is the same.
        """
        if 0 in records.timestamps:
            raise UnsupportedError(
                f"{self._doing}: a record has the timestamp 0 (1970-01-01T00:00:00Z), which "
                "confluent-kafka replaces by the current time. Use another one, or a log in files"
            )
        self._cluster.trouble = None
        outcomes: _Outcomes = {}
        try:
            with self._cluster.explained(self._doing):
                self._produce(records, outcomes)
        finally:
            # A record that is not acknowledged in time is reported as failed, so this call ends.
            if self._producer.flush(self._cluster.timeout_s + 5):
                self._producer.purge()
                self._producer.flush(5)
        failures = [error for error in outcomes if error is not None]
        if failures:
            raise self._failure(failures)
        offset = outcomes[None].offset()
        return None if offset is None or offset < 0 else offset + 1

    def close(self) -> None:
        """Close the producer. A second close does nothing."""
        self._cluster.close(self._producer)

    def _produce(self, records: RecordColumns, outcomes: _Outcomes) -> None:
        producer = self._producer
        produce, topic, partition = producer.produce, self._topic, self._partition
        # Called with (error or None, message): keeps the last message of each outcome.
        on_delivery = outcomes.__setitem__
        for record in records:
            headers = self._pairs(record.headers) if record.headers else None
            while True:
                try:
                    produce(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        on_delivery=on_delivery,
                        timestamp=record.timestamp,
                        headers=headers,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)  # the library's queue is full
                    if outcomes.keys() - {None}:
                        return

    def _pairs(self, headers: Headers) -> list[tuple[str, str | bytes | None]]:
        pairs: list[tuple[str, str | bytes | None]] = [(key, value) for key, value in headers]
        if any("\0" in key for key, _ in pairs):
            raise UnsupportedError(
                f"{self._doing}: a header's key contains a NUL, at which confluent-kafka cuts it "
                "off. Use another key, or a log in files"
            )
        return pairs

    def _failure(self, failures: list[KafkaError]) -> KStoreError:
        """Return the error of the most informative failure."""
        self.lost = any(error.fatal() or error.name() == "_FATAL" for error in failures)
        causes = [error for error in failures if error.name() not in _FOLLOWING]
        return self._cluster.error((causes or failures)[0], self._doing)

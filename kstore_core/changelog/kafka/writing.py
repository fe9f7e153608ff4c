"""Columns of records to a Kafka partition."""

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
"""The errors of records that fail because another one has failed."""


class PartitionWriter:
    """Sends records, in order, and waits until all in-sync replicas have them.

    Its producer is kept after a failure: the epoch in its batches keeps brokers from appending
    behind newer records what it has given up.

    Attributes
    ----------
    lost : bool
        The producer cannot go on, and whether the brokers have what it sent is not known.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._doing = f"the changelog {topic}-{partition} was not written"
        self._producer = cluster.producer()  # takes half a second until it may send
        self.lost = False

    def send(self, records: RecordColumns) -> int | None:
        """Send records; returns the offset behind the last one, or None where it is unknown.

        Raises
        ------
        UnsupportedError
            Records that the library would change.
        EngineError
            Not all are acknowledged. The brokers may have some, so all have to be sent again, which
            is harmless: they come in the same order.
        """
        if 0 in records.timestamps:
            raise UnsupportedError(
                f"{self._doing}: a record has the timestamp 0 (1970-01-01T00:00:00Z), in place of "
                "which confluent-kafka sends the current time. Use another, or a log in files"
            )
        self._cluster.trouble = None
        outcomes: _Outcomes = {}
        try:
            with self._cluster.explained(self._doing):
                self._produce(records, outcomes)
        finally:
            # What is not acknowledged in time is reported as that, so this ends.
            if self._producer.flush(self._cluster.timeout_s + 5):
                self._producer.purge()
                self._producer.flush(5)
        failures = [error for error in outcomes if error is not None]
        if failures:
            raise self._failure(failures)
        offset = outcomes[None].offset()
        return None if offset is None or offset < 0 else offset + 1

    def close(self) -> None:
        """Close the producer. Closing twice is fine."""
        self._cluster.close(self._producer)

    def _produce(self, records: RecordColumns, outcomes: _Outcomes) -> None:
        producer = self._producer
        produce, topic, partition = producer.produce, self._topic, self._partition
        # Called with (error or None, message): what has happened, and the last one of each.
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
                f"{self._doing}: a header's key has a NUL in it, where confluent-kafka cuts it "
                "off. Use another, or a log in files"
            )
        return pairs

    def _failure(self, failures: list[KafkaError]) -> KStoreError:
        """The failure that says most."""
        self.lost = any(error.fatal() or error.name() == "_FATAL" for error in failures)
        telling = [error for error in failures if error.name() not in _FOLLOWING]
        return self._cluster.error((telling or failures)[0], self._doing)

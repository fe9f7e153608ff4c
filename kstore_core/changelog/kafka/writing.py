"""The sending of columns of records to a Kafka partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.codec import RecordColumns
from kstore_core.errors import KStoreError, UnsupportedError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from kstore_core.codec import Headers

    _Outcomes = dict[KafkaError | None, Message]

__all__ = ["PartitionWriter", "no_time_zero", "pairs_of"]

_FOLLOWING = frozenset({"_MSG_TIMED_OUT", "_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL"})
"""The errors that the library reports for a record because another record failed."""


def pairs_of(headers: Headers, doing: str) -> list[tuple[str, str | bytes | None]]:
    """Return headers in the form that confluent-kafka accepts.

    Raise UnsupportedError if confluent-kafka would change a key. The text of the error begins with
    ``doing``.
    """
    pairs: list[tuple[str, str | bytes | None]] = [(key, value) for key, value in headers]
    if any("\0" in key for key, _ in pairs):
        raise UnsupportedError(
            f"{doing}: a header's key contains a NUL, and confluent-kafka would drop the NUL and "
            "the characters after it. Use another key, or a changelog in files"
        )
    return pairs


def no_time_zero(doing: str) -> UnsupportedError:
    """Return the error for a record with the timestamp 0."""
    return UnsupportedError(
        f"{doing}: a record has the timestamp 0 (1970-01-01T00:00:00Z), which confluent-kafka "
        "replaces with the current time. Use another timestamp, or a changelog in files"
    )


class PartitionWriter:
    """A writer that sends records in order and waits until all in-sync replicas have them.

    After a failed send, the writer uses the same producer again. The producer's batches contain an
    epoch, and brokers use this epoch to reject late batches of the failed send. Without the epoch,
    late batches could be stored after newer records. A transactional ``producer`` of the caller
    must be in a transaction.

    Attributes
    ----------
    lost : bool
        True if the producer cannot continue. The brokers may have some of its last records.
    """

    def __init__(
        self, cluster: Cluster, topic: str, partition: int, producer: Producer | None = None
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._doing = f"the changelog {topic}-{partition} was not written"
        # A new producer needs half a second before it can send, so one producer is reused.
        self._producer = producer or cluster.producer()
        self._is_shared = producer is not None
        self.lost = False

    def send(self, records: RecordColumns) -> int | None:
        """Send records, and return the offset after the last record, or None if it is unknown.

        Raises
        ------
        UnsupportedError
            confluent-kafka cannot send a record unchanged.
        EngineError
            Some records were not acknowledged. The brokers may have some of the records, so the
            caller must send all of them again, in the same order.
        """
        if 0 in records.timestamps:
            raise no_time_zero(self._doing)
        self._cluster.trouble = None
        outcomes: _Outcomes = {}
        try:
            with self._cluster.explained(self._doing):
                self._produce(records, outcomes)
        finally:
            # The library reports a record as failed if the record is not acknowledged in time. So
            # flush does not wait forever.
            if self._producer.flush(self._cluster.timeout_s + 5):
                self._producer.purge()
                self._producer.flush(5)
        failures = [error for error in outcomes if error is not None]
        if failures:
            raise self._failure(failures)
        offset = outcomes[None].offset()
        return None if offset is None or offset < 0 else offset + 1

    def close(self) -> None:
        """Close the producer, unless the caller made it. A second close does nothing."""
        if not self._is_shared:
            self._cluster.close(self._producer)

    def _produce(self, records: RecordColumns, outcomes: _Outcomes) -> None:
        producer = self._producer
        produce, topic, partition = producer.produce, self._topic, self._partition
        # The library calls this method with (error or None, message). So the dict has the last
        # message of each outcome.
        on_delivery = outcomes.__setitem__
        for record in records:
            headers = pairs_of(record.headers, self._doing) if record.headers else None
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
                    producer.poll(0.1)  # The library's queue is full.
                    if outcomes.keys() - {None}:
                        return

    def _failure(self, failures: list[KafkaError]) -> KStoreError:
        """Return the kstore error for the failure that caused the other failures."""
        self.lost = any(error.fatal() or error.name() == "_FATAL" for error in failures)
        causes = [error for error in failures if error.name() not in _FOLLOWING]
        return self._cluster.error((causes or failures)[0], self._doing)

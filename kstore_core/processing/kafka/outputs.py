"""The producer that sends the output records of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.writing import no_time_zero, pairs_of
from kstore_core.errors import KStoreError
from kstore_core.processing.queues import Output

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

__all__ = ["OutputProducer"]

_DOING = "an output record was not sent"


class OutputProducer:
    """A producer for output records. Kafka's default partitioner chooses their partitions.

    Parameters
    ----------
    cluster : Cluster
    transactional_id : str, optional
        The id of the transactions. The constructor fences an earlier producer with this id, and
        waits for the end of that producer's transaction. Without an id, there are no transactions.
    """

    def __init__(self, cluster: Cluster, transactional_id: str | None = None) -> None:
        self._cluster = cluster
        self._error: KafkaError | None = None
        self._is_transactional = transactional_id is not None
        self._in_transaction = False
        self._has_sent = False
        self.client = cluster.producer(transactional_id, partitioner="murmur2_random")
        if self._is_transactional:
            try:
                self._done(self.client.init_transactions, "the transactions cannot be initialised")
            except BaseException:
                self.close()
                raise

    def send(self, outputs: Iterable[Output]) -> None:
        """Queue records. `flush` or another later call raises the error of a failed record.

        Raises
        ------
        UnsupportedError
            confluent-kafka cannot send a record unchanged.
        """
        for output in outputs:
            self._send(output)
        self.client.poll(0)
        self._check()

    def _send(self, output: Output) -> None:
        self.begin()
        self._has_sent = True
        topic, key, value, timestamp, headers = output
        doing = f"{_DOING} to {topic}"
        if timestamp == 0:
            raise no_time_zero(doing)
        pairs = pairs_of(headers, doing)
        while True:
            try:
                with self._cluster.explained(doing):
                    self.client.produce(
                        topic,
                        value,
                        key,
                        on_delivery=self._delivered,
                        timestamp=timestamp,
                        headers=pairs,
                    )
                return
            except BufferError:
                self.client.poll(0.1)  # The library's queue is full.
                self._check()

    @property
    def has_sent(self) -> bool:
        """True if records were sent since the last `commit` or `flush`."""
        return self._has_sent

    def begin(self) -> None:
        """Begin a transaction, unless one is open or the producer has no transactional id."""
        if self._is_transactional and not self._in_transaction:
            with self._cluster.explained("a transaction cannot begin"):
                self.client.begin_transaction()
            self._in_transaction = True

    def flush(self) -> None:
        """Wait until the brokers have all records.

        Raises
        ------
        EngineError
            A record was not acknowledged.
        """
        self.client.flush(self._cluster.timeout_s + 5)
        self._check()
        self._has_sent = False

    def commit(self, offsets: list[TopicPartition], consumer: Consumer) -> None:
        """Commit the transaction together with the offsets of the consumer's group.

        Raises
        ------
        EngineLockedError
            Another process has taken over the task.
        EngineError
            The brokers did not answer, or rejected the transaction.
        """
        doing = "the transaction was not committed"
        if offsets:
            self.begin()
            group = consumer.consumer_group_metadata()
            self._done(
                lambda limit: self.client.send_offsets_to_transaction(offsets, group, limit), doing
            )
        if self._in_transaction:
            self._done(self.client.commit_transaction, doing)
            self._in_transaction = False
        self._check()
        self._has_sent = False

    def close(self) -> None:
        """Abort an open transaction, and close the producer."""
        if self._in_transaction:
            self._in_transaction = False
            # If this fails, the broker aborts the transaction: when the next producer begins, or
            # at the timeout of the transaction.
            with suppress(self._cluster.library.KafkaException):
                self.client.abort_transaction(5.0)
        self._cluster.close(self.client)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._error is None:
            self._error = error

    def _check(self) -> None:
        if self._error is not None:
            raise self._cluster.error(self._error, _DOING)

    def _done(self, call: Callable[[float], Any], doing: str) -> None:
        """Make a request of a transaction. Retry up to 4 times after a retriable error."""
        self._cluster.trouble = None
        for _ in range(5):
            try:
                call(self._cluster.timeout_s)
                return
            except self._cluster.library.KafkaException as caught:
                error = caught.args[0]
                failure: KStoreError = self._cluster.error(error, doing)
                if not error.retriable():
                    raise failure from caught
        raise failure

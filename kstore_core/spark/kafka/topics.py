"""The driver's requests to the brokers for partitions and their offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from kstore_core.changelog.kafka.topics import partitions_of, topics
from kstore_core.errors import StateError
from kstore_core.spark.kafka.offsets import EARLIEST, LATEST, Offsets, Place
from kstore_core.spark.kafka.options import KafkaOptions

__all__ = ["Brokers"]

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics. As in Kafka's own consumer, no pattern matches an internal topic."""


class Brokers:
    """The connection to the brokers with which the driver plans batches.

    The constructor raises EngineUnavailableError if confluent-kafka is not installed, and SpecError
    if librdkafka refuses a setting.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._cluster = options.cluster()
        # Use a consumer for the requests, because the request of a consumer never creates a topic.
        self._consumer = self._cluster.consumer(isolation=options.isolation)
        try:
            self._admin = self._cluster.admin()
        except BaseException:
            self._cluster.close(self._consumer)
            raise

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._cluster.close(self._consumer)
        self._cluster.close(self._admin)

    def places(self, *, may_be_gone: Collection[str] | None = ()) -> list[Place]:
        """Ask the brokers which partitions the options select, and return those that exist.

        ``may_be_gone`` contains the topics that may be missing; None means that every topic may be
        missing. Raises StateError if a topic that is not in ``may_be_gone`` is missing, or if an
        existing topic lacks a partition. Raises EngineError if the brokers do not answer, or if
        they refuse the request.
        """
        wanted = self._options.topics
        if wanted.pattern is not None:
            found = topics(self._cluster, self._consumer)
            named = re.compile(wanted.pattern).fullmatch
            return _all_of({n: c for n, c in found.items() if named(n) and n not in _INTERNAL})
        names = dict.fromkeys(wanted.names or [topic for topic, _ in wanted.places])
        counts = {name: self._count(name, may_be_gone) for name in names}
        if wanted.names:
            return _all_of(counts)
        for topic, number in wanted.places:
            if number >= counts[topic] > 0:
                raise StateError(
                    f"the topic {topic} at {self._options.servers} has no partition {number}; it "
                    f"has {counts[topic]} partitions. Correct the numbers in the option 'assign'"
                )
        return [place for place in wanted.places if counts[place[0]]]

    def earliest(self, places: Iterable[Place]) -> Offsets:
        """Return the offset of the first record of each partition."""
        return self._ask(places, EARLIEST)

    def latest(self, places: Iterable[Place]) -> Offsets:
        """Return the end offset of each partition, exclusive.

        The end offset is the high watermark if the isolation level is ``read_uncommitted``, and the
        last stable offset if the level is ``read_committed``.
        """
        return self._ask(places, LATEST)

    def _count(self, topic: str, may_be_gone: Collection[str] | None) -> int:
        count = partitions_of(self._cluster, self._consumer, topic)
        if count is None and may_be_gone is not None and topic not in may_be_gone:
            raise StateError(
                f"the brokers {self._options.servers} have no topic {topic}; create the topic, or "
                "correct the name"
            )
        return count or 0

    def _ask(self, places: Iterable[Place], which: int) -> Offsets:
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        kind: Any = OffsetSpec
        at = kind.earliest() if which == EARLIEST else kind.latest()
        asked = {self._cluster.library.TopicPartition(*place): at for place in places}
        if not asked:
            return {}
        level = IsolationLevel[self._options.isolation.upper()]
        limit = self._options.timeout_s

        def question(_: float) -> dict[Any, Any]:
            sent = self._admin.list_offsets(asked, isolation_level=level, request_timeout=limit)
            return {place: answer.result(limit + 5) for place, answer in sent.items()}

        found = self._cluster.ask(self._admin, question, "the offsets of topics are not known")
        return {(place.topic, place.partition): info.offset for place, info in found.items()}


def _all_of(counts: dict[str, int]) -> list[Place]:
    return [(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]

"""The options of the writers of ``format("kstore-kafka")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstore_core.changelog.topic import check_topic
from kstore_core.errors import SpecError
from kstore_core.spark.kafka.options import GivenOptions, wait_ms

if TYPE_CHECKING:
    from kstore_core.changelog.kafka.client import Cluster

__all__ = ["WRITE_OPTIONS", "KafkaWriteOptions"]

WRITE_OPTIONS = {
    "kafka.bootstrap.servers": "",
    "topic": "the column topic",
    "transactionalId": "no transactions",
    "timeoutMs": "120000",
}
"""The options and their defaults. The settings that librdkafka receives are not included."""

_OF_SPARK = ("checkpointlocation", "queryname", "outputmode", "includeheaders")


@dataclass(frozen=True, slots=True)
class KafkaWriteOptions:
    """The parsed options of a writer. Each worker receives a pickled copy."""

    servers: str
    topic: str | None
    transactional_id: str | None
    timeout_s: float
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain a password

    @classmethod
    def of(cls, options: Mapping[str, str]) -> KafkaWriteOptions:
        """Parse options. Their names may be in upper or lower case.

        Raises SpecError for an unknown option, a missing option, or a wrong value.
        """
        # Ignore Spark's own options. Ignore includeHeaders too, as Spark's Kafka sink does.
        own = {name: text for name, text in options.items() if name.lower() not in _OF_SPARK}
        given = GivenOptions(own, WRITE_OPTIONS)
        topic: str | None = given.read("topic", lambda _, text: check_topic(text.strip()), None)
        transactional: str | None = given.read("transactionalId", lambda _, text: text, None)
        if transactional is not None and topic is None:
            raise SpecError(
                "transactionalId needs the option topic, because kstore stores the progress of the "
                "writer as offsets of this topic; rows may still name other topics in the column "
                "topic"
            )
        if transactional is not None:
            check_topic(transactional)
        timeout_s = given.read("timeoutMs", wait_ms, 120_000) / 1000
        servers = given.needed("kafka.bootstrap.servers")
        return cls(servers, topic, transactional, timeout_s, given.settings())

    def cluster(self) -> Cluster:
        """Return a Cluster for the brokers. confluent-kafka must be installed."""
        from kstore_core.changelog.kafka.client import Cluster

        settings = {"topic.metadata.propagation.max.ms": "2000", **self.settings}
        return Cluster(self.servers, settings, self.timeout_s)

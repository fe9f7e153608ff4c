"""An application's changelogs in Kafka, with a topic per store and a partition per task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.changelog.files.directory import partition_for
from kstore_core.changelog.kafka.changelog import KafkaChangelog
from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.topics import check_settings, create_topic, partitions_of
from kstore_core.changelog.topic import changelog_topic, topic_config
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from confluent_kafka import Producer

__all__ = ["KafkaChangelogs"]


class KafkaChangelogs:
    """The changelogs of an application in Kafka. New topics get the settings of Kafka Streams.

    Parameters
    ----------
    servers : str
        The bootstrap brokers as ``host:port``, separated by commas.
    application_id, partition : optional
        See `ChangelogDirectory`.
    partitions : int, optional
        The number of partitions of each topic, which is the number of tasks. If the argument is
        given, missing topics are created. If it is not given, the topics must exist.
    replication_factor : int
        The replication factor of new topics; the brokers' default if -1.
    settings : mapping of str to object, optional
        Settings of the Kafka clients, by librdkafka's names.
    check_settings : bool
        If True, raise an error for a topic whose settings would lose records that a restore needs.
        The Kafka user of the client then needs the permission DescribeConfigs.
    timeout_s : float
        The time in seconds after which an operation fails if the brokers do not answer.
    producer : confluent_kafka.Producer, optional
        See `KafkaChangelog`.
    """

    def __init__(
        self,
        servers: str,
        *,
        application_id: str | None = None,
        partition: int | None = None,
        partitions: int | None = None,
        replication_factor: int = -1,
        settings: Mapping[str, Any] | None = None,
        check_settings: bool = True,
        timeout_s: float = 30.0,
        producer: Producer | None = None,
    ) -> None:
        if partitions is not None and partitions < 1:
            raise SpecError(f"partitions must be 1 or more, not {partitions}")
        self.servers = servers
        self.application_id = application_id
        self.partition = partition
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.check_settings = check_settings
        self.timeout_s = timeout_s
        self._settings = dict(settings or {})
        self._producer = producer

    def __repr__(self) -> str:
        return f"<KafkaChangelogs {self.servers}>"

    def changelog_of(
        self, spec: StoreSpec, task: Path, durability: Durability = "process"
    ) -> KafkaChangelog:
        """Open the changelog of a store. If `partitions` is given, a missing topic is created.

        `durability` is ignored, because the topic's replicas decide which failures a commit
        survives.

        Raises
        ------
        SpecError
            No partition is given, and the state directory's name contains no partition. Or Kafka
            does not allow the topic's name. Or the topic is missing, and `partitions` is not given.
            Or the number of the topic's partitions is not `partitions`. Or the topic's settings
            would lose records that a restore needs.
        StateError, EngineLockedError, EngineError, EngineUnavailableError
            The changelog cannot be opened; see `KafkaChangelog`.
        """
        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        partition = partition_for(task, self.partition, f"KafkaChangelogs({self.servers!r}")
        self._prepare(topic, topic_config(spec, dict(spec.changelog)))
        return KafkaChangelog(
            self.servers,
            topic,
            partition,
            settings=self._settings,
            timeout_s=self.timeout_s,
            producer=self._producer,
        )

    def _prepare(self, topic: str, wanted: Mapping[str, str]) -> None:
        cluster = Cluster(self.servers, self._settings, self.timeout_s)
        consumer = cluster.consumer()
        try:
            count = partitions_of(cluster, consumer, topic)
            if count is None:
                if self.partitions is None:
                    raise SpecError(
                        f"there is no topic {topic} at {self.servers}; to create it, pass the "
                        f"number of tasks: KafkaChangelogs({self.servers!r}, partitions=…)"
                    )
                count = create_topic(
                    cluster, consumer, topic, self.partitions, self.replication_factor, wanted
                )
        finally:
            cluster.close(consumer)
        if self.partitions not in (None, count):
            raise SpecError(
                f"the topic {topic} at {self.servers} has {count} partitions, so its application "
                f"has {count} tasks, but partitions is {self.partitions}. Pass "
                f"partitions={count}, or another application_id"
            )
        if self.check_settings:
            check_settings(cluster, topic, wanted)

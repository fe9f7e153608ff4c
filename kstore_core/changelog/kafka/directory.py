"""The changelogs of an application in Kafka: a topic for each store, a partition for each task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kstore_core.changelog.files.directory import partition_for
from kstore_core.changelog.kafka.changelog import KafkaChangelog
from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.topics import check_settings, create_topic, partitions_of
from kstore_core.changelog.topic import changelog_topic, topic_config
from kstore_core.engine import Durability
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

__all__ = ["KafkaChangelogs"]


class KafkaChangelogs:
    """Changelogs in Kafka; topics are created as Kafka Streams does.

    Parameters
    ----------
    servers : str
        The bootstrap brokers: ``host:port``, separated by commas.
    application_id : str, optional
        Default: the name of the directory that the state directory is in, as in Kafka Streams'
        ``<state.dir>/<application.id>/0_3``.
    partition : int, optional
        Default: the last number in the state directory's name, 3 for ``0_3``.
    partitions : int, optional
        The number of partitions of a topic: that of the tasks. Default: topics must exist.
    replication_factor : int
        For new topics; -1 is the brokers' default.
    settings : mapping of str to object, optional
        Settings of the clients, by librdkafka's names.
    check_settings : bool
        Refuse a topic whose settings would lose records that a restore needs. The check needs the
        right DescribeConfigs.
    timeout_s : float
        The time without an answer of the brokers after which an operation fails.
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
    ) -> None:
        if partitions is not None and partitions < 1:
            raise SpecError(f"partitions is {partitions}; 1 or more is needed")
        self.servers = servers
        self.application_id = application_id
        self.partition = partition
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.check_settings = check_settings
        self.timeout_s = timeout_s
        self._settings = dict(settings or {})

    def __repr__(self) -> str:
        return f"<KafkaChangelogs {self.servers}>"

    def changelog_of(
        self, spec: StoreSpec, task: Path, durability: Durability = "process"
    ) -> KafkaChangelog:
        """Open a store's changelog; a missing topic is created.

        Parameters
        ----------
        durability : {"process", "power", "changelog"}
            Has no effect: the topic's replicas decide which failures a commit survives.

        Raises
        ------
        SpecError
            The partition is unknown: none is given, and the state directory's name has none. Or
            Kafka does not allow the topic's name. Or the topic is missing and `partitions` is not
            given. Or it has another number of partitions, or settings that lose needed records.
        StateError, EngineLockedError, EngineError, EngineUnavailableError
            See `KafkaChangelog`.
        """
        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        partition = partition_for(task, self.partition, f"KafkaChangelogs({self.servers!r}")
        self._prepare(topic, topic_config(spec, dict(spec.changelog)))
        return KafkaChangelog(
            self.servers, topic, partition, settings=self._settings, timeout_s=self.timeout_s
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
                f"the topic {topic} at {self.servers} has {count} partitions, not "
                f"{self.partitions}: its application has that many tasks. Pass "
                f"partitions={count}, or another application_id"
            )
        if self.check_settings:
            check_settings(cluster, topic, wanted)

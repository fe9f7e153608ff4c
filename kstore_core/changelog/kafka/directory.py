"""The changelogs of an application in Kafka: a topic for each store, a partition for each task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kstore_core.changelog.files.directory import partition_of
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
        Brokers to begin with: ``host:port``, one or more with commas between.
    application_id : str, optional
        Left out, the name of the directory that the state directory is in, as in Kafka Streams'
        ``<state.dir>/<application.id>/0_3``.
    partition : int, optional
        Left out, the last number in the state directory's name: of ``0_3`` it is 3.
    partitions : int, optional
        How many a topic has: as many as there are tasks. Left out, topics have to be there.
    replication_factor : int
        Of new topics; -1 is the brokers' default.
    settings : mapping of str to object, optional
        Of the clients, by librdkafka's names.
    check_settings : bool
        Refuse a topic whose settings lose what a store is restored from. It needs the right to
        DescribeConfigs.
    timeout_s : float
        After what time without an answer of the brokers an operation gives up.
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
            raise SpecError(f"topics of {partitions} partitions; 1 or more is needed")
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
        """Open a store's changelog, its topic created where it is missing.

        Parameters
        ----------
        durability : {"process", "power", "changelog"}
            Makes no difference: what a commit survives is up to the topic's replicas.

        Raises
        ------
        SpecError
            The state directory's name says no partition, and none is given; the topic's name is
            none that Kafka would take; there is no such topic, and `partitions` is not given; it
            has another number of them, or settings that lose what the store is restored from.
        StateError, EngineLockedError, EngineError, EngineUnavailableError
            See `KafkaChangelog`.
        """
        topic = changelog_topic(self.application_id or task.parent.name, spec.name)
        partition = self.partition if self.partition is not None else partition_of(task)
        if partition is None:
            raise SpecError(
                f"{task} is not named after a task, such as 0_3, which would tell the partition of "
                f"its changelogs; pass changelog=KafkaChangelogs({self.servers!r}, partition=0)"
            )
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
                        f"there is no topic {topic} at {self.servers}; to create it, say how many "
                        f"tasks there are: KafkaChangelogs({self.servers!r}, partitions=…)"
                    )
                count = create_topic(
                    cluster, consumer, topic, self.partitions, self.replication_factor, wanted
                )
        finally:
            cluster.close(consumer)
        if self.partitions not in (None, count):
            raise SpecError(
                f"the topic {topic} at {self.servers} has {count} partitions, not "
                f"{self.partitions}: it belongs to an application of as many tasks. Pass "
                f"partitions={count}, or another application_id"
            )
        if self.check_settings:
            check_settings(cluster, topic, wanted)

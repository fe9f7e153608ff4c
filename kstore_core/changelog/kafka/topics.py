"""Functions that list, create and check changelog topics in Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.errors import EngineError, SpecError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

__all__ = ["check_settings", "create_topic", "partitions_of", "topics"]


def topics(cluster: Cluster, consumer: Consumer) -> dict[str, int]:
    """Return the number of partitions of each topic that the user of the client may describe."""
    found = cluster.ask(
        consumer,
        lambda timeout: consumer.list_topics(timeout=timeout),
        "the topics cannot be listed",
    )
    return {name: len(topic.partitions) for name, topic in found.topics.items()}


def partitions_of(cluster: Cluster, consumer: Consumer, topic: str) -> int | None:
    """Return the number of a topic's partitions, or None if the topic does not exist.

    Raises
    ------
    EngineError
        The brokers cannot be reached, or reject the request.
    """
    doing = f"the topic {topic} cannot be described"

    def describe(timeout: float) -> Any:
        found = consumer.list_topics(topic, timeout=timeout).topics[topic]
        if found.error is not None and found.error.name() != "UNKNOWN_TOPIC_OR_PART":
            raise cluster.library.KafkaException(found.error)
        return found

    return len(cluster.ask(consumer, describe, doing).partitions) or None


def create_topic(
    cluster: Cluster,
    consumer: Consumer,
    topic: str,
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, str],
) -> int:
    """Create a topic if it does not exist, and wait until the brokers list the topic.

    Returns
    -------
    int
        The topic's number of partitions.

    Raises
    ------
    EngineError
        The brokers reject the request.
    """
    from confluent_kafka.cimpl import NewTopic

    doing = f"the topic {topic} cannot be created"
    new = NewTopic(topic, partitions, replication_factor, config=dict(settings))
    deadline = time.monotonic() + cluster.timeout_s
    try:
        _answer(
            cluster, lambda admin, limit: admin.create_topics([new], request_timeout=limit)[topic]
        )
    except cluster.library.KafkaException as caught:
        if caught.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise cluster.error(caught.args[0], doing) from caught
    while (count := partitions_of(cluster, consumer, topic)) is None:
        if time.monotonic() > deadline:
            raise EngineError(
                f"the topic {topic} at {cluster.servers} was created, but the brokers do not list "
                "it yet; try again"
            )
        time.sleep(0.05)
    return count


def check_settings(cluster: Cluster, topic: str, wanted: Mapping[str, str]) -> None:
    """Raise an error if a topic's settings do not fit a changelog.

    Raises
    ------
    SpecError
        The topic would lose records; the message names the settings.
    EngineError
        The brokers reject the request.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    asked = ConfigResource(ResourceType.TOPIC, topic)
    with cluster.explained(f"the settings of the topic {topic} are not known"):
        answer = _answer(
            cluster,
            lambda admin, limit: admin.describe_configs([asked], request_timeout=limit)[asked],
        )
    actual = {name: entry.value for name, entry in answer.items()}
    better = _better(wanted, actual)
    if better:
        found = ", ".join(f"{name}={actual[name]}" for name in better)
        needed = ",".join(f"{name}=[{value}]" for name, value in better.items())
        raise SpecError(
            f"settings of the topic {topic} at {cluster.servers} do not fit a changelog: "
            f"{found}. Run kafka-configs.sh --bootstrap-server {cluster.servers} --alter --topic "
            f"{topic} --add-config {needed}"
        )


def _better(wanted: Mapping[str, str], actual: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that must change, with their new values.

    A retention that is longer than needed does not have to change.
    """
    better: dict[str, str] = {}
    policy, present = _policies(wanted["cleanup.policy"]), _policies(actual["cleanup.policy"])
    if ("compact" in policy) != ("compact" in present) or "delete" in present - policy:
        better["cleanup.policy"] = wanted["cleanup.policy"]
    if wanted["message.timestamp.type"] != actual["message.timestamp.type"]:
        better["message.timestamp.type"] = wanted["message.timestamp.type"]
    lag = "min.compaction.lag.ms"
    if "compact" in policy & present and int(actual[lag]) < int(wanted.get(lag, 0)):
        better[lag] = wanted[lag]
    retention = "retention.ms"
    if "delete" in policy & present and 0 <= int(actual[retention]) < int(wanted.get(retention, 0)):
        better[retention] = wanted[retention]
    return better


def _policies(setting: str) -> set[str]:
    return {part.strip() for part in setting.split(",")}


def _answer(cluster: Cluster, question: Callable[..., Any]) -> Any:
    """Send a request with a new admin client, and return the answer.

    Raises
    ------
    KafkaException
        The request failed, or the brokers did not answer in time.
    """
    admin = cluster.admin()
    try:
        return question(admin, cluster.timeout_s).result(cluster.timeout_s + 5)
    finally:
        cluster.close(admin)

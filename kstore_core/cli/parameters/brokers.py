"""The argument for a changelog in Kafka: ``kafka://host:port[,host:port][/topic]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kstore_core.changelog import KafkaChangelog
from kstore_core.changelog.files.directory import other_store, partition_of, topics_of
from kstore_core.changelog.kafka.client import Cluster
from kstore_core.changelog.kafka.topics import topics
from kstore_core.cli.output.exit_codes import NotFoundError
from kstore_core.cli.parameters.values import DIRECTORY
from kstore_core.errors import SpecError

__all__ = ["LOG", "Brokers", "client_settings", "open_topic"]

_URL = re.compile(r"kafka://(?P<servers>[^/\s]+)(?:/(?P<topic>[^/\s]+)?)?")
_PORT = re.compile(r":([0-9]+)(?:,|$)")
_PORT_DIGITS, _LAST_PORT = 5, 65_535


@dataclass(frozen=True)
class Brokers:
    """The location of a log in Kafka: the bootstrap brokers, and the topic or None."""

    servers: str
    topic: str | None

    def __str__(self) -> str:
        return f"kafka://{self.servers}" + (f"/{self.topic}" if self.topic else "")


class _Log(click.ParamType["Path | Brokers"]):
    """The parameter type of a changelog, which is a directory or a location in Kafka."""

    name = "log"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | Brokers:
        if not value.startswith("kafka:"):
            return Path(DIRECTORY.convert(value, param, ctx))
        url = _URL.fullmatch(value)
        if url is None:
            self.fail(f"{value!r} is not kafka://host:port or kafka://host:port/topic", param, ctx)
        for port in _PORT.findall(url["servers"]):
            if len(port) > _PORT_DIGITS or not 0 < int(port) <= _LAST_PORT:
                self.fail(
                    f"{value!r}: {port} is not a port; a port must be 1 to {_LAST_PORT}", param, ctx
                )
        return Brokers(url["servers"], url["topic"])


LOG = _Log()


def client_settings(path: Path | None) -> dict[str, str]:
    """Read librdkafka settings from a file, one ``name=value`` per line.

    Raises
    ------
    SpecError
        A line is neither a setting, nor a comment, nor empty.
    """
    settings: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path else (), 1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        if not equals or not name.strip():
            raise SpecError(
                f"{path}, line {number} is not a setting; a line must be name=value, or # and a "
                "comment"
            )
        settings[name.strip()] = value.strip()
    return settings


def open_topic(
    brokers: Brokers, settings: dict[str, str], store: str, path: Path
) -> KafkaChangelog:
    """Open the changelog of a store for reading. The caller must close the changelog.

    If no topic is given, the topic is ``<application>-<store>-changelog``, where the application is
    the name of the directory above the state directory. If this topic does not exist, there must be
    a single topic that has the name of a changelog of the store. The name of the state directory,
    such as ``0_3``, contains the partition. For any other name, the topic must have a single
    partition.

    Raises
    ------
    NotFoundError
        The topic does not exist, there are several such topics, the topic may belong to another
        store, or the partition is unknown.
    KStoreError
        The brokers cannot be reached, or refuse the request.
    """
    cluster = Cluster(brokers.servers, settings)
    consumer = cluster.consumer()
    try:
        there = topics(cluster, consumer)
    finally:
        cluster.close(consumer)
    task = path.resolve()
    topic = _topic(brokers, store, task.parent.name, there)
    partition = partition_of(task)
    if partition is None:
        if there[topic] != 1:
            raise NotFoundError(
                f"{path} is not named after a task, such as 0_3, so kstore cannot know which of "
                f"the {there[topic]} partitions of {topic} belongs to {path}. Rename the directory"
            )
        partition = 0
    return KafkaChangelog(brokers.servers, topic, partition, settings=settings, read_only=True)


def _topic(brokers: Brokers, store: str, application: str, there: dict[str, int]) -> str:
    wanted = brokers.topic or f"{application}-{store}-changelog"
    if wanted in there:
        return wanted
    if brokers.topic:
        raise NotFoundError(f"there is no topic {wanted} at {brokers.servers}")
    found = topics_of(there, store, application)
    other = other_store(found[0], store, application) if len(found) == 1 else None
    if len(found) != 1 or other is not None:
        names = ", ".join(found)
        names += f", which may also belong to the store {other!r}" if other else ""
        raise NotFoundError(
            f"there is no topic {wanted} at {brokers.servers}"
            + (f", but {names}" if names else f", nor another changelog of a store {store!r}")
            + f"; name the topic: --from kafka://{brokers.servers}/TOPIC"
        )
    return found[0]

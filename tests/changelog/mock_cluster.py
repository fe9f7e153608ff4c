"""A cluster of one broker that librdkafka simulates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

__all__ = ["mock_cluster", "topic_maker"]


@contextmanager
def mock_cluster() -> Iterator[str]:
    """The address of a mock cluster."""
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(mock.list_topics(timeout=10).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    mock.close()


def topic_maker(servers: str) -> Callable[[], str]:
    """Makes topics of four partitions: the mock has every topic that a producer asks for."""
    numbers = itertools.count()

    def make() -> str:
        topic = f"topic-{next(numbers)}"
        Producer({"bootstrap.servers": servers, "log_level": 0}).list_topics(topic, timeout=10)
        return topic

    return make

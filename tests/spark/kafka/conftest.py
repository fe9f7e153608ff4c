"""A cluster that librdkafka plays, a real broker, and Spark's own connector, where there is one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.changelog.broker.conftest import broker
from tests.interop.harness import HarnessUnavailableError
from tests.spark.kafka.connector import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker"]


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    """A mock cluster of one broker."""
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    one = next(iter(mock.list_topics(timeout=10).brokers.values()))
    yield f"{one.host}:{one.port}"
    mock.close()


@pytest.fixture(scope="session")
def new_topic(servers: str) -> Callable[[], str]:
    """Makes topics of four partitions in the mock cluster."""
    numbers = itertools.count()

    def make() -> str:
        topic = f"topic-{next(numbers)}"
        Producer({"bootstrap.servers": servers, "log_level": 0}).list_topics(topic, timeout=10)
        return topic

    return make


@pytest.fixture(scope="session")
def connector(spark: SparkSession, pytestconfig: pytest.Config) -> None:
    """Spark's own connector in the session; or skip."""
    cache = os.environ.get("KSTORE_INTEROP_CACHE")
    try:
        jars = resolve(Path(cache) if cache else pytestconfig.cache.mkdir("interop"))
    except HarnessUnavailableError as reason:
        pytest.skip(f"Spark's Kafka connector cannot be had here: {reason}")
    for jar in jars:
        spark.sql(f"ADD JAR '{jar}'")

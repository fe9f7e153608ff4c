"""A cluster that librdkafka plays, a real broker, and Spark's own connector, where there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.changelog.broker.conftest import broker
from tests.changelog.mock_cluster import mock_cluster, topic_maker
from tests.interop.harness import HarnessUnavailableError
from tests.spark.kafka.connector import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["broker"]


@pytest.fixture(scope="session")
def servers() -> Iterator[str]:
    """A mock cluster of one broker."""
    with mock_cluster() as servers:
        yield servers


@pytest.fixture(scope="session")
def new_topic(servers: str) -> Callable[[], str]:
    """Makes topics of four partitions in the mock cluster."""
    return topic_maker(servers)


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

"""The released Kafka Streams, built once and running for the whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.interop import results
from tests.interop.harness import Harness, HarnessUnavailableError, build, with_newer_rocksdb
from tests.interop.results import Cell


@pytest.fixture(scope="session")
def classpath(pytestconfig: pytest.Config) -> str:
    """The built harness, in $KSTORE_INTEROP_CACHE or else pytest's own cache; or skip."""
    cache = os.environ.get("KSTORE_INTEROP_CACHE")
    try:
        return build(Path(cache) if cache else pytestconfig.cache.mkdir("interop"))
    except HarnessUnavailableError as reason:
        pytest.skip(f"Kafka Streams cannot run here: {reason}")


@pytest.fixture(scope="session")
def kafka(classpath: str) -> Iterator[Harness]:
    """A JVM with Kafka Streams in it; a test closes the store that it opens."""
    with closing(Harness(classpath)) as harness:
        yield harness


@pytest.fixture(scope="session")
def newer(classpath: str) -> Iterator[Harness]:
    """A JVM with the same Kafka Streams over a newer RocksDB."""
    with closing(Harness(with_newer_rocksdb(classpath))) as harness:
        yield harness


@pytest.fixture
def cell(kafka: Harness) -> Cell:
    """Holds the outcome of a block to results.json: ``with cell(kind, direction):``."""
    return partial(results.cell, release_of(kafka))


@pytest.fixture
def newer_cell(newer: Harness) -> Cell:
    """The same, of the newer RocksDB."""
    return partial(results.cell, release_of(newer))


def release_of(harness: Harness) -> str:
    """What runs in the JVM."""
    return results.release(**harness.call("version"))

"""A Kafka broker for a file of tests, or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.changelog.broker.broker import Broker, resolve
from tests.interop.harness import HarnessUnavailableError


@pytest.fixture(scope="module")
def broker(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A broker in $KSTORE_INTEROP_CACHE's class path, or that of pytest's cache; or skip.

    It ends with the file, because an idle broker uses 4 % of a processor.
    """
    cache = os.environ.get("KSTORE_INTEROP_CACHE")
    try:
        classpath = resolve(Path(cache) if cache else pytestconfig.cache.mkdir("interop"))
    except HarnessUnavailableError as reason:
        pytest.skip(f"a Kafka broker cannot run here: {reason}")
    with closing(Broker(classpath, tmp_path_factory.mktemp("broker"))) as running:
        yield running

"""Stores whose logs are a broker's topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kstore_core.changelog import KafkaChangelogs
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import Kind
from tests.restore.stores import spec_of


def spec_kept(kind: Kind) -> StoreSpec:
    """The tests' records are of 1970, and expire at once where anything does."""
    return spec_of(kind).with_changelog({"retention.ms": "-1"})


def logs_of(servers: str, root: Path | str, **options: Any) -> KafkaChangelogs:
    """An application of its own for each test."""
    application = "".join(part if part.isalnum() else "-" for part in str(root))[-100:]
    options = {"partition": 0, "partitions": 1, "timeout_s": 20, **options}
    return KafkaChangelogs(servers, application_id=application, **options)

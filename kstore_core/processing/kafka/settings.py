"""The settings of a runner, which apply to all of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kstore_core.changelog.kafka.client import Cluster

__all__ = ["Guarantee", "RunnerSettings"]

Guarantee: TypeAlias = Literal["at_least_once", "exactly_once_v2"]


@dataclass(frozen=True)
class RunnerSettings:
    """The arguments of :class:`~kstore_core.processing.kafka.KafkaRunner`, and its cluster."""

    cluster: Cluster
    client: Mapping[str, Any]
    application_id: str
    state: Path
    guarantee: Guarantee
    engine: str
    commit_interval_ms: int
    reset: str
    replication_factor: int
    uncommitted_max_bytes: int
    partition_time: bool

    @property
    def is_exactly_once(self) -> bool:
        """True if each commit is one transaction."""
        return self.guarantee == "exactly_once_v2"

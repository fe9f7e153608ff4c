"""The interface that a storage engine must implement (SPI); see docs/extending/engine.md."""

from kstore_core.engine.base import Engine
from kstore_core.engine.capabilities import (
    DURABILITY_LEVELS,
    Capabilities,
    Durability,
    EngineOptions,
)
from kstore_core.engine.database import Chunk, Database, Namespace, Rows, Snapshot

__all__ = [
    "DURABILITY_LEVELS",
    "Capabilities",
    "Chunk",
    "Database",
    "Durability",
    "Engine",
    "EngineOptions",
    "Namespace",
    "Rows",
    "Snapshot",
]

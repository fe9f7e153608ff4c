"""The engine SPI: what a storage engine supplies. See docs/extending/engine.md."""

from kstore_core.engine.base import (
    DURABILITY_LEVELS,
    Capabilities,
    Chunk,
    Database,
    Durability,
    Engine,
    EngineOptions,
    Namespace,
    Rows,
    Snapshot,
)

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

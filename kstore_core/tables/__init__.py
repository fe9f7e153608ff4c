"""Tables, which are ordered maps of bytes, and their storage.

Layers and shapes reach the engine only through tables.
"""

from kstore_core.tables.base import (
    OFFSETS,
    Bounds,
    Layer,
    NamespaceTable,
    StoredTable,
    Table,
    Write,
)

__all__ = [
    "OFFSETS",
    "Bounds",
    "Layer",
    "NamespaceTable",
    "StoredTable",
    "Table",
    "Write",
]

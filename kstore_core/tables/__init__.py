"""Tables, which are ordered maps of bytes, and their storage.

The layers and the typed stores reach the engine only through tables.
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

"""Tables of ordered bytes and their storage: the only interface that layers and shapes use."""

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

"""The waist: tables of ordered bytes, and what is below them. Layers and shapes see no more."""

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

"""Stores restored from log records: one batch after the other, or as columns."""

from kstore_core.restore.columnar import Restored, restore

__all__ = ["Restored", "restore"]

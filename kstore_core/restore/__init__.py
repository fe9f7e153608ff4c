"""The restore of stores from log records, batch by batch or as Arrow columns."""

from kstore_core.restore.columnar import Restored, restore

__all__ = ["Restored", "restore"]

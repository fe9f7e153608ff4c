"""The restore of stores from log records, batch by batch or as Arrow columns."""

from kstore_core.restore.columnar import Restored, can_restore_history, restore, restore_history

__all__ = ["Restored", "can_restore_history", "restore", "restore_history"]

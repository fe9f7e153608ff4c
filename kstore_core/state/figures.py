"""The metrics of the stores of a state directory, and their totals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from kstore_core.metrics import Metric, Rate
from kstore_core.state.open_store import OpenStore

__all__ = ["StateFigures"]


class StateFigures:
    """The reader of the metrics of one state directory and of its stores.

    Parameters
    ----------
    path : Path
        The path of the state directory.

    Attributes
    ----------
    tags : dict of str to str
        The tags of the directory's metrics, which name the directory and the thread that opened it.
    """

    def __init__(self, path: Path) -> None:
        self.tags = {
            "thread-id": threading.current_thread().name,
            "task-id": path.name,
            "state-dir": str(path),
        }
        self._dropped = Rate()

    def read(self, stores: Sequence[OpenStore], staged_bytes: int) -> Iterator[Metric]:
        """Yield the metrics of the stores and then the totals of the directory, as they are now."""
        for store in stores:
            if store.context.measures is not None:
                yield from store.context.measures.read()
        dropped = sum(store.dropped_late for store in stores)
        caches = [store.context.cache for store in stores if store.context.cache is not None]
        budgets = {id(cache.budget): cache.budget.used_bytes for cache in caches}
        for name, value in (
            ("dropped-records-total", dropped),
            ("dropped-records-rate", self._dropped.read(dropped)),
            ("uncommitted-bytes", staged_bytes),
            ("cache-size-bytes-total", sum(budgets.values())),
        ):
            yield Metric(name, self.tags, value)

"""The metrics of a state directory: those of each store, and totals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from kstore_core.metrics import Metric, Rate
from kstore_core.state.open_store import OpenStore

__all__ = ["StateFigures"]


class StateFigures:
    """The metrics of the stores of one state directory.

    Parameters
    ----------
    path : Path
        The path of the state directory.

    Attributes
    ----------
    tags : dict of str to str
        The names of the directory and of the thread that opened it.
    """

    def __init__(self, path: Path) -> None:
        self.tags = {
            "thread-id": threading.current_thread().name,
            "task-id": path.name,
            "state-dir": str(path),
        }
        self._dropped = Rate()

    def read(self, stores: Sequence[OpenStore], staged_bytes: int) -> Iterator[Metric]:
        """Yield the current metrics."""
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

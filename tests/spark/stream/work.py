"""A step that kills whoever is in the middle of an epoch, and what epochs emit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.spark.support.local_cluster import parent_of

WORKER, EXECUTOR, DRIVER = "worker", "executor", "driver"


@dataclass(frozen=True)
class Kills:
    """Kills to come, one an epoch: files of a directory, in the order of their names.

    The first one is armed by `arm`, each further one when an epoch has been emitted.
    """

    path: str

    def plan(self, kills: Iterable[tuple[str, str]]) -> None:
        """Note kills: at which step, and of whom."""
        Path(self.path).mkdir()
        for number, (step, victim) in enumerate(kills):
            (Path(self.path) / f"{number:02}").write_text(f"{step} {victim}")

    def left(self) -> list[str]:
        """Those that have not happened."""
        return [file.read_text() for file in sorted(Path(self.path).glob("[0-9a]*"))]

    def arm(self) -> None:
        """Have the next one happen at its step, unless one is waiting to."""
        armed = Path(self.path, "armed")
        waiting = sorted(Path(self.path).glob("[0-9]*"))
        if waiting and not armed.exists():
            waiting[0].rename(armed)

    def __call__(self, told: str, shard: int | None) -> None:
        """The step: kills, once, where one is armed for it."""
        armed = Path(self.path, "armed")
        try:
            step, victim = armed.read_text().split()
            if step != told:
                return
            armed.unlink()  # of two tasks at once, one
        except FileNotFoundError:
            return
        self._kill(victim)

    def _kill(self, victim: str) -> None:
        """Kill this worker, or be held here until somebody kills its executor or its driver."""
        if victim in (DRIVER, EXECUTOR):
            coming = Path(self.path, "coming")
            coming.write_text(f"{victim} {parent_of(os.getppid())}")
            coming.rename(Path(self.path, "held"))
            time.sleep(600)  # the daemon ends a worker when it misses its executor
        os.kill(os.getpid(), signal.SIGKILL)


def shown(outputs: list[pa.Table]) -> list[str]:
    """The rows of an epoch's output, each as text, by key."""
    table = pa.concat_tables(outputs)
    times = table["timestamp"].cast(pa.int64())
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", times)
    return sorted(repr(row) for row in table.to_pylist())

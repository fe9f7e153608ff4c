"""What a driver is called to stream, and a step that kills whoever is in the middle of an epoch."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.spark.streams import epochs_of, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        if victim == EXECUTOR:
            os.kill(_parent(os.getppid()), signal.SIGKILL)
            time.sleep(600)  # the daemon ends this process when it misses its executor
        if victim == DRIVER:
            for process in Path(self.path, "pids").read_text().split():
                os.kill(int(process), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _parent(process: int) -> int:
    """The parent of a process: of the daemon that forks Python workers, its executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def stream(spark: SparkSession, scratch: str) -> None:
    """Stream what there is in ``in`` into ``root``, and append what is emitted to a file."""
    place = Path(scratch)
    kills = Kills(str(place / "kills"))
    gateway: Any = spark.sparkContext._gateway
    (place / "kills" / "pids").write_text(f"{gateway.proc.pid} {os.getpid()}")

    def emit(changes: DataFrame, epoch: int) -> None:
        rows = shown([changes.toArrow()])
        with (place / "emitted").open("a") as file:
            file.write(json.dumps([epoch, rows]) + "\n")
        if not Path(kills.path, "armed").exists():
            kills.arm()

    kills.arm()
    run(
        epochs_of(spark, place / "in"),
        place / "root",
        place / "checkpoint",
        emit=emit,
        _step=kills,
    )


def shown(outputs: list[pa.Table]) -> list[str]:
    """The rows of an epoch's output, each as text, by key."""
    table = pa.concat_tables(outputs)
    times = table["timestamp"].cast(pa.int64())
    table = table.set_column(table.column_names.index("timestamp"), "timestamp", times)
    return sorted(repr(row) for row in table.to_pylist())

"""Rescales an application, and kills itself at one of the steps: run as a program."""

from __future__ import annotations

import os
import signal
import sys

from kstore_core.maintenance.migrate import MigrateProgress
from kstore_core.maintenance.rescale import rescale_tasks


class Killer:
    """Dies when it is told of a step of a store."""

    def __init__(self, step: str) -> None:
        self.step = step

    def __call__(self, progress: MigrateProgress) -> None:
        if f"{progress.step} {progress.store}" == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    source, target, step = sys.argv[1:]
    rescale_tasks(source, target, partitions=3, on_progress=Killer(step))

"""Functions that run workloads in separate processes, and collect the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["Measured", "best_of", "own_command", "results_of"]

Measured = dict[tuple[str, str], float]
"""The measured values by workload and operation. Most are operations per second."""


def own_command(workload: str, engine: str, durability: str, *arguments: int) -> list[str]:
    """Return the command that runs a workload on kstore."""
    return [
        *(sys.executable, "-m", "asv_benchmarks.peer.workloads"),
        *(workload, engine, durability),
        *map(str, arguments),
    ]


def results_of(command: list[str], scratch: Path) -> Measured:
    """Run a workload, and return what it measures.

    Parameters
    ----------
    scratch : Path
        The directory for the stores.

    Raises
    ------
    RuntimeError
        The workload fails.
    """
    environment = {
        **os.environ,
        "TMPDIR": str(scratch),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch}",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[-4:])} failed: {done.stderr.strip()[-2000:]}")
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {(line["bench"], line["op"]): line["value"] for line in lines}


def best_of(rounds: Iterable[Mapping[tuple[str, str], float]]) -> Measured:
    """Return the greatest value of each operation in several rounds."""
    best: Measured = {}
    for measured in rounds:
        for name, value in measured.items():
            best[name] = max(value, best.get(name, value))
    return best

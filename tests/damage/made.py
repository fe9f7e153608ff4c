"""A state directory for each kind and engine, and its files' damages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.damage.trials import Damage, files_of, samples

TIMES = int(os.environ.get("KSTORE_DAMAGE", "1"))


SAMPLES = 2 * TIMES


SEED = 20_250_401


class Home(NamedTuple):
    """A state directory as a killed process has left it, and what it held at each commit."""

    kind: str
    engine: str
    root: Path
    commits: list[str]

    def damages(self, count: int) -> Iterator[Damage]:
        for file in files_of(self.root):
            yield from samples(self.root, file, count, SEED)


def made(kind: str, engine: str, folder: Path) -> Home:
    root = folder / "0_0"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.damage.homes", kind, engine, str(root)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return Home(kind, engine, root, done.stdout.split())

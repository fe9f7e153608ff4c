"""Damage done to one file at a time, and what became of whoever read it."""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

PATIENCE_S = 60
_LOGGED = ("LOG", "lock.mdb")
"""Information for people, and LMDB's table of readers: no data."""


class Damage(NamedTuple):
    """What is done to a file: one bit flipped, or all cut off from a byte on."""

    what: str
    file: Path
    at: int
    bit: int = 0

    def do(self, root: Path) -> None:
        path = root / self.file
        if self.what == "cut":
            os.truncate(path, self.at)
            return
        with path.open("r+b") as file:
            file.seek(self.at)
            (byte,) = file.read(1)
            file.seek(self.at)
            file.write(bytes([byte ^ (1 << self.bit)]))

    def __str__(self) -> str:
        bit = f", bit {self.bit}" if self.what == "flip" else ""
        return f"{self.what} {self.file} at byte {self.at}{bit}"


class Outcome(NamedTuple):
    """What a reader answered; `died` is the signal that ended it, and `read` a digest."""

    read: str | None = None
    error: str | None = None
    message: str = ""
    untyped: str | None = None
    died: str | None = None


def files_of(root: Path) -> list[Path]:
    """The files that hold something, but for what is only information."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size)
    return [path.relative_to(root) for path in found if not path.name.startswith(_LOGGED)]


def samples(root: Path, file: Path, count: int, seed: int) -> Iterator[Damage]:
    """So many flips and as many cuts of a file; the first and the last bytes are among them."""
    size = (root / file).stat().st_size
    chosen = random.Random(f"{seed}{file}")
    for number in range(count):
        ends = {0: 0, 1: size - 1}
        yield Damage("flip", file, ends.get(number, chosen.randrange(size)), chosen.randrange(8))
        yield Damage("cut", file, ends.get(number, chosen.randrange(size)))


def copied(source: Path, target: Path) -> Path:
    """A fresh copy of a home, without what is only information."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("LOG", "LOG.old*"))
    return target


class Reader:
    """A process that reads stores; another one takes its place when it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, **request: Any) -> Outcome:
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        line = process.stdout.readline() if ready else ""
        if line:
            return Outcome(**json.loads(line))
        self._end()
        if not ready:
            return Outcome(died=f"nothing for {PATIENCE_S} s")
        return Outcome(died=signal.Signals(-process.returncode).name)

    @staticmethod
    def _started() -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.damage.reading"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

"""Helpers of the tests of the native engines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kstore_core.engine import Engine

__all__ = ["kill_when_done", "opening", "output_of", "run_python"]


@contextmanager
def opening(make: Callable[[Any], Engine], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open the store ``s`` in ``tmp_path`` with engine options by name; close it at the end."""
    with ExitStack() as stack:

        def open_one(
            store: str = "s",
            *,
            root: Path = tmp_path,
            durability: Any = "process",
            read_only: bool = False,
            **options: Any,
        ) -> Any:
            engine = make(options or None)
            database = engine.open(root, store, durability=durability, read_only=read_only)
            stack.callback(database.close)
            return database

        yield open_one


def run_python(engine: str, code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another interpreter that runs ``code`` with ``root`` and what follows it in ``argv``."""
    prelude = (
        "import os, sys, pathlib, time\n"
        "from kstore_core.engine import Rows\n"
        f"from {engine}\n"
        "root = pathlib.Path(sys.argv[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    """Wait until a process ends, check that its exit code is 0, and return its output."""
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output


def kill_when_done(process: subprocess.Popen[str]) -> None:
    """Wait until a process prints the line ``done``, and kill it."""
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        process.kill()

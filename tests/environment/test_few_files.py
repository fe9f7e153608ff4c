"""A process that may open no more files gets an error of kstore, which says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, resource, sys
from kstore_core import open_state, stores
from kstore_core.errors import EngineError

root, engine, known = sys.argv[1:]
if known == "known":
    from importlib import metadata
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for free in range(14):
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(free):
        os.close(held.pop())
    try:
        with open_state(f"{root}/{free}", engine=engine) as state:
            state.open(stores.window("w", 100, 10)).put(b"k", b"v", window_start=1)
        said = "fine"
    except EngineError as error:
        said = f"{type(error).__name__} {'ulimit -n' in str(error)}"
        if "oo many open files" not in str(error):
            said += str(error)
    for fd in held:
        os.close(fd)
    print(free, said)
"""


@pytest.mark.parametrize("known", ["known", "unknown"])
@pytest.mark.parametrize("engine", ["memory", "rocksdb", "lmdb"])
def test_too_many_open_files_are_told(tmp_path: Path, engine: str, known: str) -> None:
    """With none left to begin with, with one, and so on, until it works."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path), engine, known],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    said = [line.split(" ", 1)[1] for line in done.stdout.splitlines()]
    assert said[0] == "EngineUnavailableError True"
    assert said[-1] == "fine"
    told = {"EngineUnavailableError True", "EngineError True", "EngineError False", "fine"}
    assert set(said) <= told, done.stdout
    assert engine == "lmdb" or "EngineError False" not in said

"""The child processes of tests, which are forks of this process or new interpreters."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["in_fork", "killed_writer", "unsynced_writer"]

TIMEOUT_S = 60

_WRITER = """
import pickle, sys, time
engine, root, store, level = pickle.load(sys.stdin.buffer)
from kstore_core.engine import Rows
database = engine.open(root, store, durability=level)
database.namespace("offsets")
last = database.namespace("offsets").get(b"n")
number = 0 if last is None else int(last) + 1
while True:
    row = b"%09d" % number
    batch = {"default": Rows([row], [row * 9]), "offsets": Rows([b"n"], [row])}
    database.write(batch)
    print(number, flush=True)
    number += 1
"""

_UNSYNCED = """
import os, pickle, sys
engine, root, store, child, level, call = pickle.load(sys.stdin.buffer)
from kstore_core.engine import Rows
from kstore_core.testing.syncs import fail_syncs, has_open_files
opened = (engine.open, root, store) if child is None else (engine.open_child, root, store, child)
database = opened[0](*opened[1:], durability=level)
database.namespace("offsets")
for number in range(3):
    database.write({"default": Rows([b"%d" % number], [b"v"]), "offsets": Rows([b"n"], [b"v"])})
why = "the engine has no file of its state directory open in the process that uses it"
why = fail_syncs() if has_open_files(root) else why
if why is None:
    try:
        if call == "write":
            database.write({"default": Rows([b"k"], [b"v"]), "offsets": Rows([b"n"], [b"w"])})
        else:
            database.sync()
        print("returned", flush=True)
    except Exception:
        print("failed", flush=True)
else:
    print("skipped", why, flush=True)
os._exit(0)
"""


def in_fork(work: Callable[[], None]) -> None:
    """Run ``work`` in a fork of this process.

    Raises
    ------
    AssertionError
        ``work`` raises an error in the fork, or does not end.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            work()
        except BaseException:  # noqa: BLE001 - carried to the parent
            text = traceback.format_exc()
        finally:
            os.write(writing, text.encode(errors="replace")[-60_000:])
            os._exit(bool(text))
    os.close(writing)
    until = time.monotonic() + TIMEOUT_S
    status = None
    while status is None and time.monotonic() < until:
        ended, status_now = os.waitpid(child, os.WNOHANG)
        status = status_now if ended else None
        time.sleep(0.005)
    if status is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with os.fdopen(reading, errors="replace") as pipe:
        text = pipe.read()
    assert status is not None, f"a forked child hangs; it was killed after {TIMEOUT_S} s"
    assert status == 0, f"a forked child ended with status {status}:\n{text}"


def killed_writer(engine: Any, root: Any, store: str, level: str, writes: int) -> int:
    """Kill a writing interpreter after it has reported ``writes`` writes.

    The writes are numbered, and the result is the last number that the interpreter has reported.
    Each write is one batch, which puts a row with the number to the default namespace, and the
    number to the offsets namespace.
    """
    with _interpreter(_WRITER, (engine, root, store, level)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reported = [process.stdout.readline() for _ in range(writes)]
        process.send_signal(signal.SIGKILL)
        reported += process.stdout.read().split(b"\n")[:-1]
        assert reported[writes - 1], f"a writing process failed:\n{process.stderr.read().decode()}"
    return int(reported[-1])


def unsynced_writer(
    engine: Any, root: Any, store: str, child: str | None, level: str, call: str
) -> str:
    """Call ``write`` or ``sync`` in a new interpreter in which every sync fails.

    Parameters
    ----------
    child : str or None
        The name of the store's child database; the database of the store itself if None.
    level : str
        The durability level.
    call : {"write", "sync"}

    Returns
    -------
    str
        ``"returned"``, ``"failed"``, or ``"skipped "`` and the reason why syncs cannot fail.
    """
    with _interpreter(_UNSYNCED, (engine, root, store, child, level, call)) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    if process.returncode == -signal.SIGSYS:
        return "failed"
    assert process.returncode == 0, f"a writing process failed:\n{err.decode()}"
    return out.decode().strip()


def _interpreter(code: str, arguments: tuple[Any, ...]) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs ``code``, and send the arguments to its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(arguments))
    process.stdin.close()
    process.stdin = None
    return process

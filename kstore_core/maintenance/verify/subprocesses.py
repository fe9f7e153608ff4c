"""The child process that reads the data. The parent replaces a child that crashes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any, Self

from kstore_core.errors import EngineError
from kstore_core.maintenance.verify.protocol import Job, Unit
from kstore_core.maintenance.verify.worker import Worker
from kstore_core.system.interrupts import leave

__all__ = ["Child", "DiedError"]

_SCRIPT = """
import pickle, sys
paths, fd = pickle.load(sys.stdin.buffer)
sys.path[:] = paths
from kstore_core.maintenance.verify.subprocesses import serve
serve(fd)
"""
_STDERR_BYTES = 300
_START_TIMEOUT_S = 300.0


class DiedError(Exception):
    """The error that the child process ended before it finished its unit of work.

    The message contains the exit code, the signal, or the time limit that the child exceeded.
    """


class Child:
    """A child process that does units of work in the order of the calls of `do`.

    The child is a new interpreter and not a fork, because engines do not survive a fork. This class
    does not use multiprocessing, because multiprocessing would import the main module of the
    caller.

    Parameters
    ----------
    job : Job
    patience_s : float
        The maximum time in seconds without a message from the child. A silent child is killed.
    """

    def __init__(self, job: Job, patience_s: float) -> None:
        self._patience_s = patience_s
        self._root = job.root
        self._is_ready = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._ours, theirs = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=[theirs.fileno()],
        )
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write(pickle.dumps((sys.path, theirs.fileno())))
        theirs.close()
        self._ours.send(job)

    def __enter__(self) -> Self:
        return self

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        self._ours.close()
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def do(self, unit: Unit, on_message: Callable[[str, Any], None]) -> Any:
        """Let the child do a unit of work, and return the result of the unit.

        ``on_message`` is called with the name and the content of each message of the child.

        Raises
        ------
        DiedError
            The child ended. This object cannot be used again.
        EngineError
            The child could not start, so it has read nothing.
        """
        try:
            self._ours.send(unit)
            while True:
                patience = self._patience_s if self._is_ready else _START_TIMEOUT_S
                if not self._ours.poll(patience):
                    if not self._is_ready:
                        raise self._not_started(f"it was not ready after {patience:g} s")
                    raise DiedError(
                        f"the process sent no message for {patience:g} s, so verify killed it"
                    )
                name, content = self._ours.recv()
                if name == "ready":
                    self._is_ready = True
                    continue
                if name == "done":
                    return content
                on_message(name, content)
        except (EOFError, OSError):
            if not self._is_ready:
                raise self._not_started(self._exit_reason()) from None
            raise DiedError(self._exit_reason()) from None

    def _not_started(self, why: str) -> EngineError:
        return EngineError(
            f"the process that reads the data of {self._root} did not start: {why}. The process "
            "read nothing, so this error does not mean that the data is damaged. Check the "
            f"installation of kstore and of the engine for {sys.executable}, and the free memory"
        )

    def _exit_reason(self) -> str:
        code = self._process.wait()
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _STDERR_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"{how} ({lines[-1].strip()})" if lines else how


def serve(fd: int) -> None:
    """Do the units of work that the parent sends, until the parent closes the connection."""
    with Connection(fd) as parent:
        worker = Worker(parent.recv(), lambda name, content: parent.send((name, content)))
        parent.send(("ready", None))
        while True:
            try:
                unit = parent.recv()
            except EOFError:
                return
            parent.send(("done", worker.do(unit)))

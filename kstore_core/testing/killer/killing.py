"""Killing writers, and counting them."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import UnsupportedError
from kstore_core.hookspecs import ENGINES
from kstore_core.testing.killer.checking import Expected, Span
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.killer.witness import Testimony, read_testimony
from kstore_core.testing.killer.writer import write_for_ever

__all__ = ["Killer", "Tally"]

_PATIENCE_S = 60
_AIMS = ("start", "time", "commit", "call")


@functools.cache
def _processes() -> ForkServerContext:
    """Where writers come from: forks of a process that has imported everything, opened nothing."""
    context = multiprocessing.get_context("forkserver")
    engines = [entry.module for entry in entry_points(group=ENGINES)]
    context.set_forkserver_preload(["kstore_core.testing.killer.writer", *engines])
    return context


@dataclass
class Tally:
    """What came of the kills.

    Attributes
    ----------
    kills : int
        Writers that were killed.
    in_start, in_changes, in_commit : int
        How many of them while they opened the stores; between commits; within one.
    commits : int
        Commits that came back.
    checks : int
        How often everything was read.
    """

    kills: int = 0
    in_start: int = 0
    in_changes: int = 0
    in_commit: int = 0
    commits: int = 0
    checks: int = 0

    def __add__(self, other: Tally) -> Tally:
        names = [field.name for field in fields(self)]
        return Tally(*(getattr(self, name) + getattr(other, name) for name in names))

    def count(self, said: Testimony) -> None:
        """Count one kill."""
        self.kills += 1
        self.in_start += not said.opened
        self.in_commit += said.in_commit
        self.in_changes += said.opened and not said.in_commit
        self.commits += said.commits


class Killer:
    """Kills the writers of one directory.

    Parameters
    ----------
    make_engine : callable
        Gives a new engine, persistent and to be pickled.
    chosen : Combination
    root : path-like
        Where everything goes; empty, or not there yet.
    seed : int
        Of what is written, and of when who is killed. That part of the latter which is a time
        depends on the machine.

    Attributes
    ----------
    tally : Tally

    Raises
    ------
    UnsupportedError
        The engine keeps nothing on disk, so nothing outlives a writer.
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        chosen: Combination,
        root: str | os.PathLike[str],
        seed: int = 0,
    ) -> None:
        engine = make_engine()
        if not engine.capabilities.persistent:
            raise UnsupportedError(
                f"the engine {engine.name!r} keeps nothing on disk, so nothing of a writer that is "
                "killed could be checked; give a persistent one"
            )
        self.tally = Tally()
        self._make_engine = make_engine
        self._chosen = chosen
        self._root = Path(root)
        self._seed = seed
        self._random = random.Random(f"{seed} {chosen}")
        self._expected = Expected(chosen, seed)
        self._goes_back = chosen.goes_back(engine.capabilities)
        self._root.mkdir(parents=True, exist_ok=True)

    def run(self, kills: int) -> Tally:
        """Kill so many writers, one to three of them between two checks.

        Raises
        ------
        ValueError
            Fewer than one.
        AssertionError
            A store is not what was promised, or a writer ended by itself; the directory is as the
            writers left it, and as far as a check has replayed.
        """
        if kills < 1:
            raise ValueError(f"{kills} kills would show nothing; give 1 or more")
        until = self.tally.kills + kills
        while self.tally.kills < until:
            lives = self._random.choice((1,) if self._goes_back else (1, 1, 2, 3))
            said = [self._live() for _ in range(min(lives, until - self.tally.kills))]
            before = self._expected.commit
            span = Span(
                max(before, *(one.returned for one in said)),
                max(before, *(one.begun for one in said)),
            )
            try:
                self._expected.check(self._make_engine(), self._root, span)
            except Exception as error:
                error.add_note(self._told(span))
                raise
            self.tally.checks += 1
        return self.tally

    def _live(self) -> Testimony:
        """Start a writer and kill it."""
        said = self._root / "said"
        said.unlink(missing_ok=True)
        aim = self._random.choice(_AIMS)
        calls = self._random.randrange(40) if aim == "call" else None
        writer = _processes().Process(
            target=write_for_ever,
            args=(self._make_engine(), str(self._chosen), self._root, self._seed, said, calls),
            daemon=True,
        )
        writer.start()
        try:
            self._wait(writer, said, aim)
        finally:
            writer.kill()
            writer.join()
            status = writer.exitcode
            writer.close()
        told = read_testimony(said)
        assert (status, told.failure) == (-signal.SIGKILL, None), (
            f"a writer of {self._chosen} ended with status {status} and was not killed (seed "
            f"{self._seed}, {self._root}):\n{told.failure or ''}"
        )
        self.tally.count(told)
        return told

    def _wait(self, writer: BaseProcess, said: Path, aim: str) -> None:
        """Wait for the moment at which the writer is to be killed."""
        if aim == "start":
            time.sleep(self._random.uniform(0, 0.03))
            return
        self._until(writer, lambda: read_testimony(said).opened)
        if aim == "call":
            writer.join(_PATIENCE_S)
        elif aim == "time":
            time.sleep(self._random.uniform(0, 0.06))
        else:
            number = read_testimony(said).called + self._random.randrange(1, 8)
            self._until(writer, lambda: read_testimony(said).called >= number)
            time.sleep(self._random.uniform(0, 0.001))

    def _until(self, writer: BaseProcess, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while writer.is_alive() and not reached():
            assert time.monotonic() < end, f"a writer of {self._chosen} hangs"
            time.sleep(0.0003)

    def _told(self, span: Span) -> str:
        return (
            f"after kill {self.tally.kills} of {self._chosen} with seed {self._seed}: commits up "
            f"to {span.returned} had returned, {span.begun} was begun; it lies in {self._root}"
        )

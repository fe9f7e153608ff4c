"""The class that kills writers many times, and counts the kills."""

from __future__ import annotations

import functools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.errors import UnsupportedError
from kstore_core.hookspecs import ENGINES
from kstore_core.testing.killer.checking import Expected, Span
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.killer.steps import Steps, read_steps
from kstore_core.testing.killer.writer import write_for_ever
from kstore_core.testing.rounds import Counts

__all__ = ["Killer", "Tally"]

_PATIENCE_S = 60
_AIMS = ("start", "time", "commit", "call")


@functools.cache
def _processes() -> ForkServerContext:
    """Return the fork server of the writers, which imports all modules and opens no store."""
    context = multiprocessing.get_context("forkserver")
    engines = [entry.module for entry in entry_points(group=ENGINES)]
    context.set_forkserver_preload(["kstore_core.testing.killer.writer", *engines])
    return context


@dataclass
class Tally(Counts):
    """The counts of kills and their circumstances.

    Attributes
    ----------
    kills : int
        The number of killed writers.
    in_start, in_changes, in_commit : int
        The numbers of writers that were killed while they opened the stores, between two commits,
        and during a commit.
    commits : int
        The number of commits that returned.
    checks : int
        The number of checks of all rows.
    """

    kills: int = 0
    in_start: int = 0
    in_changes: int = 0
    in_commit: int = 0
    commits: int = 0
    checks: int = 0

    def count(self, steps: Steps) -> None:
        """Count the kill of a writer."""
        self.kills += 1
        self.in_start += not steps.opened
        self.in_commit += steps.in_commit
        self.in_changes += steps.opened and not steps.in_commit
        self.commits += steps.commits


class Killer:
    """An object that starts and kills the writers of one state directory.

    Parameters
    ----------
    make_engine : callable
        A function that returns a new engine. The engine must be persistent, and it must be possible
        to pickle the engine.
    chosen : Combination
    root : path-like
        The parent of the state directory. It must be empty or missing.
    seed : int
        The seed of the random changes and of the random times of the kills. Equal seeds do not give
        equal results, because the speed of machines differs.

    Attributes
    ----------
    tally : Tally

    Raises
    ------
    UnsupportedError
        The engine stores nothing on disk, so no row survives a writer.
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
                f"the engine {engine.name!r} stores nothing on disk, so no row of a killed writer "
                "can be checked; pass a persistent engine"
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
        """Kill ``kills`` writers, and check the stores after every one to three kills.

        Raises
        ------
        ValueError
            ``kills`` is less than 1.
        AssertionError
            A check of the stores failed, or a writer ended before it was killed. The directory is
            not removed.
        """
        if kills < 1:
            raise ValueError(f"kills must be 1 or more, not {kills}")
        until = self.tally.kills + kills
        while self.tally.kills < until:
            lives = self._random.choice((1,) if self._goes_back else (1, 1, 2, 3))
            steps = [self._kill_one() for _ in range(min(lives, until - self.tally.kills))]
            before = self._expected.commit
            span = Span(
                max(before, *(one.returned for one in steps)),
                max(before, *(one.begun for one in steps)),
            )
            try:
                self._expected.check(self._make_engine(), self._root, span)
            except Exception as error:
                error.add_note(
                    f"after kill {self.tally.kills} of {self._chosen} with seed {self._seed}: "
                    f"commits up to {span.returned} had returned, and commit {span.begun} was "
                    f"begun. The files are in {self._root}"
                )
                raise
            self.tally.checks += 1
        return self.tally

    def _kill_one(self) -> Steps:
        """Start a writer, kill the writer, and return the steps that it reported."""
        file = self._root / "steps"
        file.unlink(missing_ok=True)
        aim = self._random.choice(_AIMS)
        calls = self._random.randrange(40) if aim == "call" else None
        writer = _processes().Process(
            target=write_for_ever,
            args=(self._make_engine(), str(self._chosen), self._root, self._seed, file, calls),
            daemon=True,
        )
        writer.start()
        try:
            self._wait(writer, file, aim)
        finally:
            writer.kill()
            writer.join()
            status = writer.exitcode
            writer.close()
        steps = read_steps(file)
        assert (status, steps.failure) == (-signal.SIGKILL, None), (
            f"a writer of {self._chosen} ended with status {status} and was not killed (seed "
            f"{self._seed}, {self._root}):\n{steps.failure or ''}"
        )
        self.tally.count(steps)
        return steps

    def _wait(self, writer: BaseProcess, file: Path, aim: str) -> None:
        """Wait until it is time to kill the writer."""
        if aim == "start":
            time.sleep(self._random.uniform(0, 0.03))
            return
        self._until(writer, lambda: read_steps(file).opened)
        if aim == "call":
            writer.join(_PATIENCE_S)
        elif aim == "time":
            time.sleep(self._random.uniform(0, 0.06))
        else:
            number = read_steps(file).called + self._random.randrange(1, 8)
            self._until(writer, lambda: read_steps(file).called >= number)
            time.sleep(self._random.uniform(0, 0.001))

    def _until(self, writer: BaseProcess, reached: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while writer.is_alive() and not reached():
            assert time.monotonic() < end, f"a writer of {self._chosen} hangs"
            time.sleep(0.0003)

"""Interrupting a call again and again, and counting what came of it."""

from __future__ import annotations

import gc
import random
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.testing.explaining import same
from kstore_core.testing.interrupter.aims import AIMS, Aim, AtStep, AtTime, Raised
from kstore_core.testing.interrupter.operations import OPERATIONS, older_of
from kstore_core.testing.interrupter.trial import Contents, Trial
from kstore_core.testing.killer.combinations import Combination

__all__ = ["Interrupter", "Tally", "WedgedError"]

_OPEN_FILES = Path("/proc/self/fd")


class WedgedError(AssertionError):
    """After an interrupt something fails, is missing, or is still held."""


@dataclass
class Tally:
    """The counts of interrupts and their effects.

    Attributes
    ----------
    interrupts : int
        Interrupts that have come.
    raised : int
        Those for which the call raised KeyboardInterrupt; Python swallows one that comes while it
        frees an object.
    trials : int
        Directories that were interrupted, up to three times each, and examined.
    """

    interrupts: int = 0
    raised: int = 0
    trials: int = 0

    def __add__(self, other: Tally) -> Tally:
        names = [field.name for field in fields(self)]
        return Tally(*(getattr(self, name) + getattr(other, name) for name in names))


class Interrupter:
    """Interrupts one call of one kind of state directory.

    Parameters
    ----------
    make_engine : callable
        Gives a new engine.
    chosen : Combination
    operation : str
        One of :data:`OPERATIONS`.
    root : Path
        Where everything goes; empty, or not there yet.
    seed : int
        Of what is written, and of when interrupts come.
    aims : sequence of str
        How: ``"step"``, ``"time"``, ``"raised"``.

    Attributes
    ----------
    tally : Tally
    """

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        chosen: Combination,
        operation: str,
        root: Path,
        seed: int = 0,
        aims: tuple[str, ...] = AIMS,
    ) -> None:
        self.tally = Tally()
        self._make_engine = make_engine
        self._chosen = chosen
        self._name = operation
        self._operation = OPERATIONS[operation]
        self._root = root
        self._seed = seed
        self._aims = aims
        self._random = random.Random(f"{seed} {chosen} {operation}")
        self._trials = 0
        self._steps = 0
        self._seconds = 0.0
        self._wanted: Contents | None = None

    def run(self, interrupts: int) -> Tally:
        """Interrupt so many times.

        Raises
        ------
        ValueError
            Fewer than one.
        WedgedError
            What follows an interrupt is not as without it; the directory is as it was left.
        """
        if interrupts < 1:
            raise ValueError(f"{interrupts} interrupts would show nothing; give 1 or more")
        if self._wanted is None:
            self._lead_whole()
        until = self.tally.interrupts + interrupts
        with _quiet():
            while self.tally.interrupts < until:
                self._try(min(self._random.choice((1, 1, 2, 3)), until - self.tally.interrupts))
        return self.tally

    def _lead_whole(self) -> None:
        """See how long the call takes, in steps and in time, and what it leads to."""
        trial = self._begun()
        with AtStep(None) if "raised" not in self._aims else Raised(None) as counted:
            self._operation.call(trial)
        self._steps = counted.steps
        self._operation.check(trial)
        self._wanted = trial.goes_on()
        shutil.rmtree(trial.root, ignore_errors=True)
        trial = self._begun()
        begun = time.perf_counter()
        self._operation.call(trial)
        self._seconds = time.perf_counter() - begun
        trial.close()
        shutil.rmtree(trial.root, ignore_errors=True)

    def _begun(self) -> Trial:
        """A directory as it is when the call comes."""
        self._trials += 1
        root = self._root / str(self._trials)
        subjects = self._chosen.subjects
        made = Trial(self._make_engine(), self._chosen, subjects, root, self._seed)
        if self._operation.older:
            made.subjects = tuple(older_of(subject) or subject for subject in subjects)
        pattern = self._root / "made"
        if self._operation.new:
            return made
        if not made.engine.capabilities.persistent:
            made.make()
        else:
            if not pattern.exists():
                made.root = pattern
                made.make()
                made.root = root
            shutil.copytree(pattern, root)
        made.subjects = subjects
        self._operation.begin(made)
        return made

    def _try(self, interrupts: int) -> None:
        trial = self._begun()
        held: list[BaseException] = []
        told: list[Aim] = []
        try:
            self._interrupt(trial, interrupts, held, told)
            self._operation.call(trial)
            self._operation.check(trial)
            found = trial.goes_on()
            same(found, self._wanted, "it is as without an interrupt")
            held.clear()
            if "raised" not in self._aims:  # which comes between a system call and its result
                _check_closed(trial.root)
        except Exception as error:
            raise WedgedError(
                f"{self._name} of {self._chosen} on {trial.engine.name} with seed {self._seed} was "
                f"interrupted ({', '.join(map(repr, told))}) and then: {type(error).__name__}: "
                f"{error}; it lies in {trial.root}"
            ) from error
        shutil.rmtree(trial.root, ignore_errors=True)
        self.tally.trials += 1

    def _interrupt(
        self, trial: Trial, interrupts: int, held: list[BaseException], told: list[Aim]
    ) -> None:
        """Make the call so many times, each of which is interrupted."""
        for _ in range(interrupts):
            aim = self._aim()
            told.append(aim)
            try:
                with aim:
                    self._operation.call(trial)
            except KeyboardInterrupt as error:
                self.tally.raised += 1
                if self._random.random() < 0.5:  # a program may look at it for a while
                    held.append(error)
            self.tally.interrupts += aim.hit

    def _aim(self) -> Aim:
        kind = self._random.choice(self._aims)
        if kind == "time":
            return AtTime(self._random.uniform(0, self._seconds))
        step = self._random.randint(1, max(1, self._steps))
        return AtStep(step) if kind == "step" else Raised(step)


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing of what Python itself says of interrupts.

    One that comes while an object is freed is swallowed. One that comes before a ``with`` has what
    a call returned has that closed when it is freed, with a warning.
    """
    told = sys.unraisablehook

    def tell(what: sys.UnraisableHookArgs) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            told(what)

    sys.unraisablehook = tell
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        sys.unraisablehook = told


def _check_closed(root: Path) -> None:
    """Refuse files that are still open, where the system tells."""
    gc.collect()
    if not _OPEN_FILES.is_dir():
        return
    left = []
    for entry in _OPEN_FILES.iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            path = entry.readlink()
            if path.is_relative_to(root):
                left.append(str(path))
    assert not left, f"{len(left)} files are still open: {sorted(left)[:3]}"

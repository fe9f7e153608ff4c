"""The class that interrupts a call many times, and counts the effects."""

from __future__ import annotations

import gc
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from kstore_core.engine import Engine
from kstore_core.system.interrupts import uninterrupted
from kstore_core.testing.explaining import same
from kstore_core.testing.interrupter.aims import AIMS, Aim, AtEntry, AtStep, AtTime, Raised
from kstore_core.testing.interrupter.operations import OPERATIONS, older_of
from kstore_core.testing.interrupter.trial import Contents, Trial
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.rounds import Counts

__all__ = ["Interrupter", "Tally", "WedgedError"]

_OPEN_FILES = Path("/proc/self/fd")


class WedgedError(AssertionError):
    """The error for a state directory that fails, lacks a row or has open files afterwards."""


@dataclass
class Tally(Counts):
    """The counts of interrupts and their effects.

    Attributes
    ----------
    interrupts : int
        The number of interrupts so far.
    raised : int
        The number of interrupts after which the call raised KeyboardInterrupt. Python drops an
        interrupt that comes while Python frees an object.
    trials : int
        The number of state directories that passed the checks after one to three interrupts.
    wedged : int
        The number of state directories that failed the checks.
    """

    interrupts: int = 0
    raised: int = 0
    trials: int = 0
    wedged: int = 0


class Interrupter:
    """An object that interrupts one call many times, with one kind of state directory.

    Parameters
    ----------
    make_engine : callable
        A function that returns a new engine.
    chosen : Combination
    operation : str
        The name of the call, which is a key of :data:`OPERATIONS`.
    root : Path
        The parent of the state directories. It must be empty or missing.
    seed : int
        The seed of the random changes and of the random points of the interrupts.
    aims : sequence of str
        The kinds of interrupts: ``"step"``, ``"entry"``, ``"time"``, ``"raised"``.

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
        self._calls: list[tuple[CodeType, int]] = []
        self._seconds = 0.0
        self._wanted: Contents | None = None

    def run(self, interrupts: int) -> Tally:
        """Interrupt the call ``interrupts`` times.

        Raises
        ------
        ValueError
            ``interrupts`` is less than 1.
        WedgedError
            A state directory failed the checks after an interrupt. The directory is not removed, so
            that you can examine the directory.
        """
        if interrupts < 1:
            raise ValueError(f"interrupts must be 1 or more, not {interrupts}")
        if self._wanted is None:
            self._measure()
        until = self.tally.interrupts + interrupts
        with _quiet(), _interruptible():
            while self.tally.interrupts < until:
                self._try(min(self._random.choice((1, 1, 2, 3)), until - self.tally.interrupts))
        return self.tally

    def _measure(self) -> None:
        """Measure the steps, the time and the final contents of a call without an interrupt."""
        trial = self._prepared()
        with AtStep(None) if "raised" not in self._aims else Raised(None) as counted:
            self._operation.call(trial)
        self._steps, self._calls = counted.steps, list(counted.calls.items())
        self._operation.check(trial)
        self._wanted = trial.finish()
        shutil.rmtree(trial.root, ignore_errors=True)
        trial = self._prepared()
        begun = time.perf_counter()
        self._operation.call(trial)
        self._seconds = time.perf_counter() - begun
        trial.close()
        shutil.rmtree(trial.root, ignore_errors=True)

    def _prepared(self) -> Trial:
        """Return a state directory that is ready for the call."""
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
        trial = self._prepared()
        errors: list[BaseException] = []
        aims: list[Aim] = []
        try:
            self._interrupt(trial, interrupts, errors, aims)
            self._operation.call(trial)
            self._operation.check(trial)
            same(trial.finish(), self._wanted, "the contents are those without an interrupt")
            errors.clear()
            # A raised exception may come between a system call and its result.
            if "raised" not in self._aims:
                _check_closed(trial.root)
                _check_sections()
        except Exception as error:
            self.tally.wedged += 1
            raise WedgedError(
                f"{self._name} of {self._chosen} on {trial.engine.name} with seed {self._seed} was "
                f"interrupted ({', '.join(map(repr, aims))}), and afterwards raised "
                f"{type(error).__name__}: {error}. The files are in {trial.root}"
            ) from error
        shutil.rmtree(trial.root, ignore_errors=True)
        self.tally.trials += 1

    def _interrupt(
        self, trial: Trial, interrupts: int, errors: list[BaseException], aims: list[Aim]
    ) -> None:
        """Call the operation ``interrupts`` times, and interrupt each call."""
        for _ in range(interrupts):
            aim = self._aim()
            aims.append(aim)
            try:
                with aim:
                    self._operation.call(trial)
            except KeyboardInterrupt as error:
                self.tally.raised += 1
                if self._random.random() < 0.5:  # a program may refer to the error for a while
                    errors.append(error)
            self.tally.interrupts += aim.hit

    def _aim(self) -> Aim:
        kind = self._random.choice(self._aims)
        if kind == "time":
            return AtTime(self._random.uniform(0, self._seconds))
        if kind == "entry":
            code, calls = self._random.choice(self._calls)
            return AtEntry(code, self._random.randint(1, calls))
        step = self._random.randint(1, max(1, self._steps))
        return AtStep(step) if kind == "step" else Raised(step)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages that Python prints because of interrupts.

    Python prints a message about an interrupt that comes while Python frees an object. Python also
    warns if it frees an open handle. This happens if an interrupt comes after the call that opens
    the handle, and before its ``with`` block begins.
    """
    hook = sys.unraisablehook

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)

    sys.unraisablehook = report
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        sys.unraisablehook = hook


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt. A shell lets its background processes ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_sections() -> None:
    """Raise if signals are delayed outside a section, or are not delayed within a section."""
    raises = signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is raises, "signals are still delayed"
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is not raises, "a section does not delay signals"


def _check_closed(root: Path) -> None:
    """Raise if a file below ``root`` is open. Do nothing if the system does not list open files."""
    gc.collect()
    if not _OPEN_FILES.is_dir():
        return
    left = []
    for entry in _OPEN_FILES.iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            path = entry.readlink()
            if path.is_relative_to(root):
                left.append(str(path))
    assert not left, f"{len(left)} files are still open: {sorted(left)[:3]}"

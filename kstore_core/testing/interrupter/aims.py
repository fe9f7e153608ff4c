"""The point of an interrupt: a counted bytecode, or a time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any, Self

from kstore_core.system.interrupts import uninterrupted

__all__ = ["AIMS", "Aim", "AtStep", "AtTime", "Raised"]

_HERE = __file__.rpartition("/")[0] + "/"


class Aim:
    """Base of context managers that interrupt the code in their block, or count its steps.

    Attributes
    ----------
    hit : bool
        True after the interrupt.
    """

    hit = False

    def __repr__(self) -> str:
        return type(self).__name__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Prevent any later interrupt."""


class AtStep(Aim):
    """An interrupt by a signal at the n-th step of the main thread.

    A step is one bytecode operation of Python.

    CPython checks for signals at fewer points. Steps of the interrupter are not counted, because it
    has the role of the calling program. At the end of a ``with`` block the program has the handle,
    and CPython does not check for signals there.

    Parameters
    ----------
    step : int or None
        The number of the step, from 1 on. None only counts the steps.

    Attributes
    ----------
    steps : int
        The steps so far.
    """

    def __init__(self, step: int | None = None) -> None:
        self.steps = 0
        self._step = step
        self._where = "nowhere"
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self._step} at {self._where}"

    def _enter_frame(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if not self._counts(frame):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._trace

    def _counts(self, frame: FrameType) -> bool:
        return not frame.f_code.co_filename.startswith(_HERE)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if event == "opcode":
            self.steps += 1
            if self.steps == self._step:
                self.hit = True
                self._where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(self._before)
                self._interrupt()
        return self._trace

    def _interrupt(self) -> None:
        signal.raise_signal(signal.SIGINT)


class Raised(AtStep):
    """A KeyboardInterrupt that is raised at the n-th step, without a signal.

    Sections that delay signals do not delay it, as with an exception that another thread sends by
    ``PyThreadState_SetAsyncExc``. Steps in Python's standard library are not counted.
    """

    def _counts(self, frame: FrameType) -> bool:
        name = frame.f_globals.get("__name__", "")
        return not (
            name.partition(".")[0] in sys.stdlib_module_names
            or name.startswith("kstore_core.testing")
        )

    def _interrupt(self) -> None:
        raise KeyboardInterrupt


class AtTime(Aim):
    """A signal after a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = max(seconds, 1e-6)
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        try:
            with uninterrupted():
                before = signal.signal(signal.SIGALRM, self._interrupt)
                self._undo.callback(signal.signal, signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        except BaseException:  # the signal has come already
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():  # a signal must not interrupt the undoing
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._undo.close()

    def _interrupt(self, *_: object) -> None:
        # A signal on the way into __exit__ skips __exit__, so the handler is restored here.
        self._undo.close()
        self.hit = True
        raise KeyboardInterrupt


AIMS = ("step", "time")
"""The default aims; ``"raised"`` is used on request only."""

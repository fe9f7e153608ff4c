"""The classes that interrupt a block of code at a chosen bytecode or after a chosen time."""

from __future__ import annotations

import _thread
import opcode
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, FrameType
from typing import Any, Self

from kstore_core.system.interrupts import uninterrupted

__all__ = ["AIMS", "Aim", "Arrival", "AtEntry", "AtStep", "AtTime", "Raised"]

_RETURN = opcode.opmap["RETURN_VALUE"]
_HERE = __file__.rpartition("/")[0] + "/"


class Aim:
    """The base class of context managers that interrupt the code in their block.

    Attributes
    ----------
    hit : bool
        True once the block was interrupted.
    """

    hit = False

    def __repr__(self) -> str:
        return type(self).__name__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the block, so that it is not interrupted any more."""


class AtStep(Aim):
    """A context manager that interrupts its block by a signal at the n-th step of the main thread.

    A step is one bytecode operation of Python. CPython itself checks for signals at fewer points,
    and never at the return of a value. So an interrupt at a return waits for the next step. Steps
    in the interrupter's own code are not counted, because this code stands for the user's program,
    which is not under test.

    Parameters
    ----------
    step : int or None
        The number of the step to interrupt, beginning at 1. If None, the steps are only counted.

    Attributes
    ----------
    steps : int
        The number of steps so far.
    calls : Counter
        The number of calls so far, for the code of each Python function.
    """

    def __init__(self, step: int | None = None) -> None:
        self.steps = 0
        self.calls: Counter[CodeType] = Counter()
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
        self.calls[frame.f_code] += 1
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._trace

    def _counts(self, frame: FrameType) -> bool:
        return not frame.f_code.co_filename.startswith(_HERE)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        if event == "opcode":
            self.steps += 1
            if self.steps == self._step and frame.f_code.co_code[frame.f_lasti] == _RETURN:
                self._step += 1
            elif self.steps == self._step:
                self.hit = True
                self._where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(self._before)
                self._interrupt()
        return self._trace

    def _interrupt(self) -> None:
        signal.raise_signal(signal.SIGINT)


class Arrival(int):
    """A signal that arrives when its attribute ``now`` is read.

    CPython checks for signals after a call, but not after an attribute was read. So the handler
    does not run in the code that reads the attribute.
    """

    now = property(_thread.interrupt_main)


class AtEntry(AtStep):
    """A context manager in which a signal arrives when a chosen function begins.

    CPython checks for signals at the beginning of a function, before the first step. So the handler
    runs there. If the function is an ``__exit__``, no step of it is executed.

    Parameters
    ----------
    code : types.CodeType
        The code of the function.
    call : int
        The number of the call that is interrupted, beginning at 1. For a generator, each resumption
        counts.
    """

    def __init__(self, code: CodeType, call: int) -> None:
        super().__init__()
        self._code = code
        self._call = call

    def __repr__(self) -> str:
        code = self._code
        return f"{type(self).__name__} {self._call} of {code.co_filename}:{code.co_firstlineno}"

    def _enter_frame(self, frame: FrameType, event: str, argument: object) -> None:
        super()._enter_frame(frame, event, argument)
        if self.calls[self._code] == self._call:
            self.hit = True
            sys.settrace(self._before)
            self._arrived = Arrival(signal.SIGINT).now


class Raised(AtStep):
    """A context manager that raises KeyboardInterrupt at the n-th step without a signal.

    Sections that delay signals do not delay this exception. Another thread can send such an
    exception by ``PyThreadState_SetAsyncExc``. Steps in Python's standard library are not counted.
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
    """A context manager that interrupts its block by a signal after some seconds."""

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


AIMS = ("step", "entry", "time")
"""The default kinds of interrupts. The kind ``"raised"`` is used only on request."""

"""The interrupter: calls that KeyboardInterrupt ends at some moment, and what must go on after it.

A call of a state directory is interrupted by a signal at one step of Python's or at one time, in
this process. The same call is then made again, records are committed, everything is closed and
opened again; and what is there must be what is there without an interrupt. See
docs/extending/testing.md.
"""

from typing import TYPE_CHECKING

from kstore_core.testing.interrupter.interrupting import Interrupter, Tally, WedgedError
from kstore_core.testing.interrupter.operations import OPERATIONS, operations_of

if TYPE_CHECKING:
    from kstore_core.testing.interrupter.suite import InterruptSuite

__all__ = ["OPERATIONS", "InterruptSuite", "Interrupter", "Tally", "WedgedError", "operations_of"]


def __getattr__(name: str) -> object:
    """The suite, which alone needs pytest."""
    if name != "InterruptSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kstore_core.testing.interrupter.suite import InterruptSuite

    return InterruptSuite

"""Tests that interrupt calls on a state directory, and check that the directory stays usable.

A signal interrupts a call in this process, at a chosen bytecode or after a chosen time, so that the
call raises KeyboardInterrupt. Then the test makes the same call again, commits records, and closes
and reopens the directory. The directory must then have the same contents as after a run without an
interrupt. See docs/extending/testing.md.
"""

from kstore_core.testing.interrupter.interrupting import Interrupter, Tally, WedgedError
from kstore_core.testing.interrupter.operations import OPERATIONS, operations_of

__all__ = ["OPERATIONS", "Interrupter", "Tally", "WedgedError", "operations_of"]

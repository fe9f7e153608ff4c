"""The interrupter. It ends a call by a KeyboardInterrupt, and checks that work can continue.

A signal interrupts a call on a state directory in this process, at a chosen bytecode or after a
chosen time. Then the interrupter makes the same call again, commits records, and closes and reopens
the directory. Its contents must be those of a run without an interrupt. See
docs/extending/testing.md.
"""

from kstore_core.testing.interrupter.interrupting import Interrupter, Tally, WedgedError
from kstore_core.testing.interrupter.operations import OPERATIONS, operations_of

__all__ = ["OPERATIONS", "Interrupter", "Tally", "WedgedError", "operations_of"]

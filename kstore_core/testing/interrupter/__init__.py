"""The interrupter: a KeyboardInterrupt ends a call at some point, and the process has to go on.

A signal interrupts one call of a state directory, in this process, at a chosen bytecode or after a
chosen time. Then the same call is made again, records are committed, and the directory is closed
and opened again. Its contents must be those of a run without an interrupt. See
docs/extending/testing.md.
"""

from kstore_core.testing.interrupter.interrupting import Interrupter, Tally, WedgedError
from kstore_core.testing.interrupter.operations import OPERATIONS, operations_of

__all__ = ["OPERATIONS", "Interrupter", "Tally", "WedgedError", "operations_of"]

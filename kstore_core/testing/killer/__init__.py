"""Tests that kill writing processes many times, and check the stores that remain.

A writer is a process that commits to a state directory, and reports each step in a separate file.
The killer kills the writer during a commit, during an open, or between commits. Then the
killer starts a new writer in the same directory. At intervals the killer compares all rows with
simple models in memory. docs/extending/testing.md describes the tests, and docs/guarantees.md the
guarantees that they check.
"""

from kstore_core.testing.killer.combinations import Combination, combination, combinations, covering
from kstore_core.testing.killer.killing import Killer, Tally

__all__ = ["Combination", "Killer", "Tally", "combination", "combinations", "covering"]

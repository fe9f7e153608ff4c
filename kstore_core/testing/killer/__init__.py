"""The killer. It kills writers many times, and compares their stores with the promises.

A writer is a separate process that commits, and reports each step in a file outside the store. The
killer kills it during a commit, during an open, or between commits. The next writer continues in
the same directory. At intervals the killer reads all rows and compares them with plain models. See
docs/extending/testing.md, and docs/guarantees.md for the promises.
"""

from kstore_core.testing.killer.combinations import Combination, combination, combinations, covering
from kstore_core.testing.killer.killing import Killer, Tally

__all__ = ["Combination", "Killer", "Tally", "combination", "combinations", "covering"]

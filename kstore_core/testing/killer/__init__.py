"""The killer: writers are killed again and again, and their stores are compared with the promises.

A writer is a process of its own that commits, and reports each step in a file outside the store.
The killer ends it in a commit, while it opens, or between commits. The next writer continues in the
same directory. At intervals all rows are read and compared with plain models. See
docs/extending/testing.md, and docs/guarantees.md for the promises.
"""

from kstore_core.testing.killer.combinations import Combination, combination, combinations, covering
from kstore_core.testing.killer.killing import Killer, Tally

__all__ = ["Combination", "Killer", "Tally", "combination", "combinations", "covering"]

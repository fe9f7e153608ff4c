"""The killer: writers that are killed again and again, and what their stores have to be afterwards.

A writer is a process of its own that commits and says so in a file outside of the store. It is
killed at some moment of a commit, of its start, or between; another one goes on in the same
directory; and now and then everything is read and held against plain models. See
docs/extending/testing.md, and docs/guarantees.md for what is promised.
"""

from typing import TYPE_CHECKING

from kstore_core.testing.killer.combinations import (
    Combination,
    combination,
    combinations,
    covering,
)
from kstore_core.testing.killer.killing import Killer, Tally

if TYPE_CHECKING:
    from kstore_core.testing.killer.suite import CrashSuite

__all__ = [
    "Combination",
    "CrashSuite",
    "Killer",
    "Tally",
    "combination",
    "combinations",
    "covering",
]


def __getattr__(name: str) -> object:
    """The suite, which alone needs pytest."""
    if name != "CrashSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kstore_core.testing.killer.suite import CrashSuite

    return CrashSuite

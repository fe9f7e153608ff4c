"""Long values that have to be equal, and what is said where they are not.

Of ``assert these == those`` pytest tells a diff, in full in continuous integration: for the rows of
a large test that takes minutes.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

__all__ = ["same"]

_MISSING = object()


def same(found: Any, wanted: Any, promise: str) -> None:
    """Check that two long sequences or mappings are equal; an error tells their first difference.

    Raises
    ------
    AssertionError
        They are not; ``promise`` is what is broken.
    """
    if found == wanted:
        return
    here, there = (list(v.items()) if isinstance(v, dict) else v for v in (found, wanted))
    for index, (a, b) in enumerate(zip_longest(here, there, fillvalue=_MISSING)):
        if a is not b and a != b:
            raise AssertionError(
                f"{promise}: {len(found)} items instead of {len(wanted)}; first difference at "
                f"{index}: {_shown(a)} instead of {_shown(b)}"
            )
    raise AssertionError(f"{promise}: {type(found).__name__} instead of {type(wanted).__name__}")


def _shown(item: object) -> str:
    if item is _MISSING:
        return "nothing"
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}…"

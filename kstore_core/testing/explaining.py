"""A comparison of long values, whose error is short and shows the first difference.

In continuous integration pytest prints the full diff of a failed ``assert``. The diff of long
values takes minutes.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

__all__ = ["same"]

_MISSING = object()


def same(found: Any, wanted: Any, promise: str) -> None:
    """Check that two long sequences or mappings are equal.

    Raises
    ------
    AssertionError
        They differ. The error contains the text ``promise`` and the first difference.
    """
    if found == wanted:
        return
    here, there = (list(v.items()) if isinstance(v, dict) else v for v in (found, wanted))
    for index, (a, b) in enumerate(zip_longest(here, there, fillvalue=_MISSING)):
        if a is not b and a != b:
            raise AssertionError(
                f"{promise}: found {len(found)} items, but expected {len(wanted)}. The first "
                f"difference is at index {index}: found {_shortened(a)}, but expected "
                f"{_shortened(b)}"
            )
    raise AssertionError(
        f"{promise}: found a {type(found).__name__}, but expected a {type(wanted).__name__}"
    )


def _shortened(item: object) -> str:
    if item is _MISSING:
        return "nothing"
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}…"

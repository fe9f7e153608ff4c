"""Compare long values. The error is short and shows their first difference.

For a plain ``assert`` pytest prints a full diff in continuous integration. The diff of a large test
takes minutes.
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
        They differ. The error names the promise and the first difference.
    """
    if found == wanted:
        return
    here, there = (list(v.items()) if isinstance(v, dict) else v for v in (found, wanted))
    for index, (a, b) in enumerate(zip_longest(here, there, fillvalue=_MISSING)):
        if a is not b and a != b:
            raise AssertionError(
                f"{promise}: {len(found)} items instead of {len(wanted)}; first difference at "
                f"{index}: {_shortened(a)} instead of {_shortened(b)}"
            )
    raise AssertionError(f"{promise}: {type(found).__name__} instead of {type(wanted).__name__}")


def _shortened(item: object) -> str:
    if item is _MISSING:
        return "nothing"
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}…"

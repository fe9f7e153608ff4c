"""The sizes of the benchmarks: full sizes for figures, or small sizes to test that they run."""

from __future__ import annotations

import os

__all__ = ["sized"]

_DIVISOR = int(os.environ.get("KSTORE_BENCHMARKS_DIVISOR", "1"))


def sized(count: int, *, least: int = 100) -> int:
    """Return ``count`` divided by ``KSTORE_BENCHMARKS_DIVISOR``, but not less than ``least``.

    If the variable is not set, or if ``count`` is below ``least``, return ``count``.
    """
    return count if _DIVISOR == 1 else max(count // _DIVISOR, min(count, least))

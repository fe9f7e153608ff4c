"""How much a benchmark does: what its figures are measured with, or a part that shows it runs."""

from __future__ import annotations

import os

__all__ = ["sized"]

_DIVISOR = int(os.environ.get("KSTORE_BENCHMARKS_DIVISOR", "1"))


def sized(count: int, *, least: int = 100) -> int:
    """``count``, divided by ``KSTORE_BENCHMARKS_DIVISOR`` where that is set; at least ``least``."""
    return count if _DIVISOR == 1 else max(count // _DIVISOR, min(count, least))

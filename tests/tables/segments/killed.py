"""A process that commits to segments until it is killed."""

from __future__ import annotations

import random

PARTITION = ("app-w-changelog", 0)


def starts(number: int) -> list[int]:
    """Where the rows of a commit go: some old segments, some new ones."""
    generator = random.Random(number)
    return [generator.randrange(10 * number // 3 + 10) for _ in range(4)]

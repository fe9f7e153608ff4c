"""What is killed: shapes, levels, layers, and whether more is written than may be staged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kstore_core.changelog import ChangelogDirectory
from kstore_core.engine import DURABILITY_LEVELS, Capabilities, Durability
from kstore_core.testing.killer.subject import Subject
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW

__all__ = ["Combination", "combination", "combinations", "covering"]

_ORDERED = next(kind for kind in WINDOW if kind.indexed and kind.format.headers)
_WINDOW = next(kind for kind in WINDOW if not kind.time_ordered and kind.format.headers)
_SESSION = next(kind for kind in SESSION if not kind.time_ordered and kind.format.headers)

SHAPES: dict[str, tuple[Subject, ...]] = {
    "timestamped": (Subject("s", KEY_VALUE[1]),),
    "headers": (Subject("s", KEY_VALUE[-1]),),
    "versioned": (Subject("s", VERSIONED[-1]),),
    "window": (Subject("s", _WINDOW),),
    "duplicates": (Subject("s", _WINDOW, duplicates=True),),
    "ordered": (Subject("s", _ORDERED),),
    "session": (Subject("s", _SESSION),),
    "two": (Subject("s", KEY_VALUE[-1]), Subject("w", _WINDOW)),
}
LAYERS = ("bare", "cache", "changelog", "cache+changelog", "transactional")
STAGING = ("staged", "spilled")


@dataclass(frozen=True)
class Combination:
    """What a writer works with.

    Attributes
    ----------
    shape : str
        One of ``timestamped``, ``headers``, ``versioned``, ``window``, ``duplicates``, ``ordered``,
        ``session``, and ``two`` stores of one state directory.
    level : {"process", "power", "changelog"}
    layers : {"bare", "cache", "changelog", "cache+changelog", "transactional"}
    staging : {"staged", "spilled"}
    """

    shape: str
    level: Durability
    layers: str
    staging: str

    def __str__(self) -> str:
        return f"{self.shape}-{self.level}-{self.layers}-{self.staging}"

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Its stores."""
        return SHAPES[self.shape]

    @property
    def logged(self) -> bool:
        """Whether there is a changelog."""
        return "changelog" in self.layers

    def arguments(self, root: Path) -> dict[str, Any]:
        """Those of ``open_state``; its logs are under ``root``."""
        logs = ChangelogDirectory(root / "logs", application_id="killed", partition=0)
        return {
            "durability": self.level,
            "transactional": self.layers == "transactional",
            "uncommitted_max_bytes": 300 if self.staging == "spilled" else -1,
            "changelog": logs if self.logged else None,
        }

    def open(self, state: Any) -> list[Any]:
        """Its stores, opened."""
        return [state.open(s.spec(cached="cache" in self.layers)) for s in self.subjects]

    def loses_tails(self, able: Capabilities) -> bool:
        """Whether a kill may cost the last commits, offsets and all."""
        return self.level == "changelog" and self.level in able.durability

    def goes_back(self, able: Capabilities) -> bool:
        """Whether a writer may begin before what a store contains, by its own offsets or its log.

        What it then writes once more is older than that for a while. So it is when one of several
        stores is behind, or a log is ahead of a store that has lost its tail.
        """
        several = len(self.subjects) > 1
        if self.loses_tails(able):
            return several or self.logged
        return several and self.staging == "spilled"

    def is_atomic(self, subject: Subject, able: Capabilities) -> bool:
        """Whether a kill leaves exactly what a commit made, and nothing of the next one."""
        apart = able.children and subject.kind.shape in ("window", "session")
        return not (apart or self.logged or self.staging == "spilled")


def combination(name: str) -> Combination:
    """That of a name, ``shape-level-layers-staging``.

    Raises
    ------
    ValueError
        There is none.
    """
    for known in combinations():
        if str(known) == name:
            return known
    raise ValueError(f"no combination {name!r}; one is {next(iter(combinations()))}")


def combinations() -> list[Combination]:
    """All that there are."""
    return [
        Combination(*parts)
        for parts in itertools.product(SHAPES, DURABILITY_LEVELS, LAYERS, STAGING)
        if parts[2:] != ("transactional", "spilled")
        and not (parts[0] == "duplicates" and "cache" in parts[2])
    ]


def covering(found: Iterable[Combination]) -> list[Combination]:
    """Some of them, in which any two choices that meet in one of them all meet, too."""
    left = {one: set(itertools.combinations(_choices(one), 2)) for one in found}
    chosen = []
    while left:
        best = max(left, key=lambda one: len(left[one]))
        seen = left.pop(best)
        if not seen:
            break
        chosen.append(best)
        for pairs in left.values():
            pairs -= seen
    return chosen


def _choices(one: Combination) -> tuple[tuple[str, str], ...]:
    return (
        ("shape", one.shape),
        ("level", one.level),
        ("layers", one.layers),
        ("staging", one.staging),
    )

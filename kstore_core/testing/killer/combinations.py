"""The combinations of a shape, a durability level, layers and staging that writers use."""

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
    """The stores and the options of a writer.

    Attributes
    ----------
    shape : str
        The kind of the store: ``timestamped``, ``headers``, ``versioned``, ``window``,
        ``duplicates``, ``ordered`` or ``session``. With ``two`` the state directory has two stores.
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
        """The stores of the writer."""
        return SHAPES[self.shape]

    @property
    def logged(self) -> bool:
        """True if the stores have changelogs."""
        return "changelog" in self.layers

    def arguments(self, root: Path) -> dict[str, Any]:
        """Return the arguments of ``open_state``. The changelogs are in a folder of ``root``."""
        logs = ChangelogDirectory(root / "logs", application_id="killed", partition=0)
        return {
            "durability": self.level,
            "transactional": self.layers == "transactional",
            "uncommitted_max_bytes": 300 if self.staging == "spilled" else -1,
            "changelog": logs if self.logged else None,
        }

    def open(self, state: Any) -> list[Any]:
        """Open the stores of the writer, and return them."""
        return [state.open(s.spec(cached="cache" in self.layers)) for s in self.subjects]

    def loses_tails(self, able: Capabilities) -> bool:
        """Return True if a kill may undo the last commits with their rows and offsets."""
        return self.level == "changelog" and self.level in able.durability

    def goes_back(self, able: Capabilities) -> bool:
        """Return True if a writer may repeat commits that one of its stores already contains.

        This happens if another store of the directory lacks these commits. It also happens if a
        store has lost its last commits, but its changelog has not.
        """
        several = len(self.subjects) > 1
        if self.loses_tails(able):
            return several or self.logged
        return several and self.staging == "spilled"

    def is_atomic(self, subject: Subject, able: Capabilities) -> bool:
        """Return True if a kill never leaves a part of a commit in the store."""
        apart = able.children and subject.kind.shape in ("window", "session")
        return not (apart or self.logged or self.staging == "spilled")


def combination(name: str) -> Combination:
    """Return the combination with a name of the form ``shape-level-layers-staging``.

    Raises
    ------
    ValueError
        There is no such combination.
    """
    for known in combinations():
        if str(known) == name:
            return known
    raise ValueError(f"no combination {name!r} exists; an example is {next(iter(combinations()))}")


def combinations() -> list[Combination]:
    """Return all combinations."""
    return [
        Combination(*parts)
        for parts in itertools.product(SHAPES, DURABILITY_LEVELS, LAYERS, STAGING)
        if parts[2:] != ("transactional", "spilled")
        and not (parts[0] == "duplicates" and "cache" in parts[2])
    ]


def covering(found: Iterable[Combination]) -> list[Combination]:
    """Return some of the combinations, which together cover all pairs of choices.

    If two choices, such as a shape and a level, occur together in any of the given combinations,
    they occur together in at least one of the returned combinations.
    """
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

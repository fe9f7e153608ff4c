"""A state directory before, during and after an interrupted call."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstore_core.engine import Engine
from kstore_core.state import StateDirectory, open_state
from kstore_core.testing.killer.combinations import Combination
from kstore_core.testing.killer.subject import Subject
from kstore_core.testing.killer.writer import INPUT, stage

__all__ = ["COMMITS", "Contents", "Trial"]

COMMITS = 3
"""The number of commits before the call."""

Contents = dict[str, Any]


@dataclass
class Trial:
    """A state directory that is tested in this process.

    Attributes
    ----------
    engine : Engine
    chosen : Combination
    subjects : tuple of Subject
        The stores, which have the older format until an upgrade.
    root : Path
        The parent of the state directory and of the logs.
    seed : int
        The seed of the changes.
    number : int
        The number of the next commit.
    state : StateDirectory or None
        The open state directory; None while it is closed.
    stores : list
        Pairs of a subject and its open store.
    """

    engine: Engine
    chosen: Combination
    subjects: tuple[Subject, ...]
    root: Path
    seed: int
    number: int = COMMITS + 1
    state: StateDirectory | None = None
    stores: list[tuple[Subject, Any]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The path of the state directory."""
        return self.root / "0_0"

    def open(self) -> StateDirectory:
        """Open the directory and its stores if they are not open."""
        if self.state is None:
            self.state = open_state(
                self.home, engine=self.engine, **self.chosen.arguments(self.root)
            )
        cached = "cache" in self.chosen.layers
        specs = [subject.spec(cached=cached) for subject in self.subjects]
        self.stores = list(zip(self.subjects, map(self.state.open, specs), strict=True))
        return self.state

    def stage(self) -> None:
        """Make the changes of the next commit."""
        stage(self.open(), self.stores, self.seed, self.number)

    def commit(self) -> None:
        """Commit the staged changes."""
        self.open().commit({INPUT: self.number})

    def close(self) -> None:
        """Close the directory. This also finishes an earlier close that was interrupted."""
        if self.state is not None:
            self.state.close()
            self.state = None
            self.stores = []

    def make(self) -> None:
        """Make a new directory, commit to it, and close it."""
        for number in range(1, COMMITS + 1):
            self.number = number
            self.stage()
            self.commit()
        self.number = COMMITS + 1
        self.close()

    def contents(self) -> Contents:
        """Return the rows, the offset, the position and the stream time of each store."""
        self.open()
        return {
            subject.name: {
                "rows": _as_sets(subject, subject.found(store)),
                "offset": store.offsets().get(INPUT),
                "position": store.position,
                "stream_time": store.stream_time,
            }
            for subject, store in self.stores
        }

    def finish(self) -> Contents:
        """Commit twice, and return the contents, which must be the same after a reopen.

        Raises
        ------
        AssertionError
            The contents after the reopen differ.
        """
        for _ in range(2):
            self.stage()
            self.commit()
            self.number += 1
        found = self.contents()
        assert self.open().offsets()[INPUT] == self.number - 1
        self.close()
        again = self.contents()
        assert again == found, f"the contents were {found}, and are {again} after a reopen"
        self.close()
        return found


def _as_sets(subject: Subject, rows: dict[Any, Any]) -> dict[Any, Any]:
    """Remove repeated values if duplicates are retained: a repeated put may add a value twice."""
    if not subject.duplicates:
        return rows
    return {place: sorted(set(items), key=repr) for place, items in rows.items()}

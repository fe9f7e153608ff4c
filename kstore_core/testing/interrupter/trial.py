"""One state directory of one process, before, during and after a call that is interrupted."""

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
"""How many are there before the call."""

Contents = dict[str, Any]


@dataclass
class Trial:
    """A state directory in one process.

    Attributes
    ----------
    engine : Engine
        The one that everything is opened with.
    chosen : Combination
    subjects : tuple of Subject
        Its stores; those of an older format where one is to be upgraded.
    root : Path
        Where state and logs are.
    seed : int
        Of what is written.
    number : int
        Of the commit that is to be made next.
    state : StateDirectory or None
        While it is open.
    stores : list
        Each subject with its store, those that are open.
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
        """The state directory."""
        return self.root / "0_0"

    def open(self) -> StateDirectory:
        """Open what is not open, as a program does that is called again after an interrupt."""
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
        """Commit them."""
        self.open().commit({INPUT: self.number})

    def close(self) -> None:
        """Close what is open; once more where an interrupt came."""
        if self.state is not None:
            self.state.close()
            self.state = None
            self.stores = []

    def make(self) -> None:
        """Make the first commits, in a new directory, and close it."""
        for number in range(1, COMMITS + 1):
            self.number = number
            self.stage()
            self.commit()
        self.number = COMMITS + 1
        self.close()

    def contents(self) -> Contents:
        """What is there, by the open stores."""
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

    def goes_on(self) -> Contents:
        """Commit twice more, close and open again; what is there, which a reopening leaves.

        Raises
        ------
        AssertionError
            It does not.
        """
        for _ in range(2):
            self.stage()
            self.commit()
            self.number += 1
        found = self.contents()
        assert self.open().offsets()[INPUT] == self.number - 1
        self.close()
        again = self.contents()
        assert again == found, f"closed with {found}, opened again with {again}"
        self.close()
        return found


def _as_sets(subject: Subject, rows: dict[Any, Any]) -> dict[Any, Any]:
    """Of duplicates each value once: a put that was interrupted and made again adds it again."""
    if not subject.duplicates:
        return rows
    return {place: sorted(set(items), key=repr) for place, items in rows.items()}

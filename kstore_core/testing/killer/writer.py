"""The process that is killed: it opens the stores, goes on where they are, and commits for ever."""

from __future__ import annotations

import itertools
import os
import signal
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine import Database, Durability, Engine, Rows
from kstore_core.state import StateDirectory, open_state
from kstore_core.testing.killer.combinations import combination
from kstore_core.testing.killer.subject import Subject
from kstore_core.testing.killer.witness import Witness
from kstore_core.testing.wrapping import WrappedDatabase, WrappedEngine

__all__ = ["INPUT", "stage", "write_for_ever"]

INPUT = ("in", 0)
"""The partition that commits tell the offset of: the commit's number."""


def write_for_ever(
    engine: Engine, name: str, root: Path, seed: int, said: Path, calls: int | None
) -> None:
    """Commit one number after another, behind the last that the stores contain.

    Parameters
    ----------
    engine : Engine
    name : str
        That of the combination.
    root : Path
        Where state and logs are.
    seed : int
    said : Path
        Where it says what it has done.
    calls : int, optional
        Die at this moment of the engine's calls, counted before and after each.
    """
    witness = Witness(said)
    chosen = combination(name)
    try:
        dying = DyingEngine(engine)
        state = open_state(root / "0_0", engine=dying, **chosen.arguments(root))
        stores = list(zip(chosen.subjects, chosen.open(state), strict=True))
        witness.say("open")
        dying.calls_left = calls
        for number in itertools.count(state.offsets().get(INPUT, 0) + 1):
            witness.say(f"begun {number}")
            stage(state, stores, seed, number)
            witness.say(f"called {number}")
            state.commit({INPUT: number})
            witness.say(f"returned {number}")
    except BaseException:
        witness.say(f"failed\n{traceback.format_exc()}")
        raise


def stage(
    state: StateDirectory, stores: Iterable[tuple[Subject, Any]], seed: int, number: int
) -> None:
    """Make the changes of a commit, each by an input record whose offset is the commit's number."""
    topic, partition = INPUT
    for subject, store in stores:
        for change in subject.changes(seed, number):
            with state.record(
                topic=topic,
                partition=partition,
                offset=number,
                timestamp=change.time,
                headers=change.headers,
            ):
                subject.write(store, change)


class _DyingDatabase(WrappedDatabase):
    owner: DyingEngine

    def write(self, batch: Mapping[str, Rows]) -> None:
        self.owner.step()
        self.inner.write(batch)
        self.owner.step()

    def sync(self) -> None:
        self.owner.step()
        self.inner.sync()
        self.owner.step()


class DyingEngine(WrappedEngine):
    """An engine that kills its process before or after a call that changes something.

    Attributes
    ----------
    calls_left : int or None
        So many moments before and after such calls are lived through; None for all.
    """

    database_type: ClassVar[type[WrappedDatabase]] = _DyingDatabase

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.calls_left: int | None = None

    def step(self) -> None:
        """Live through one moment, or do not."""
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def open_child(
        self,
        root: Path,
        store: str,
        child: str,
        *,
        durability: Durability = "process",
        read_only: bool = False,
    ) -> Database:
        self.step()
        database = super().open_child(
            root, store, child, durability=durability, read_only=read_only
        )
        self.step()
        return database

    def drop_child(self, root: Path, store: str, child: str) -> None:
        self.step()
        super().drop_child(root, store, child)
        self.step()

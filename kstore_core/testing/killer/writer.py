"""The code of a writer, a process that commits to a state directory until it is killed."""

from __future__ import annotations

import itertools
import os
import signal
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine import Database, Engine, Rows
from kstore_core.state import StateDirectory, open_state
from kstore_core.testing.killer.combinations import combination
from kstore_core.testing.killer.steps import StepWriter
from kstore_core.testing.killer.subject import Subject
from kstore_core.testing.wrapping import WrappedDatabase, WrappedEngine

__all__ = ["INPUT", "stage", "write_for_ever"]

INPUT = ("in", 0)
"""The input partition of all commits. The input offset of a commit is its number."""


def write_for_ever(
    engine: Engine, name: str, root: Path, seed: int, steps: Path, calls: int | None
) -> None:
    """Make numbered commits without end, beginning after the last commit in the stores.

    Parameters
    ----------
    engine : Engine
    name : str
        The name of the combination.
    root : Path
        The parent of the state directory and of the logs.
    seed : int
    steps : Path
        The file in which the writer reports its steps.
    calls : int, optional
        The number of the point at which the process kills itself. There is a point before and a
        point after each call of the engine that writes. If None, the process does not kill itself.
    """
    reported = StepWriter(steps)
    chosen = combination(name)
    try:
        dying = DyingEngine(engine)
        state = open_state(root / "0_0", engine=dying, **chosen.arguments(root))
        stores = list(zip(chosen.subjects, chosen.open(state), strict=True))
        reported.write("open")
        dying.calls_left = calls
        for number in itertools.count(state.offsets().get(INPUT, 0) + 1):
            reported.write(f"begun {number}")
            stage(state, stores, seed, number)
            reported.write(f"called {number}")
            state.commit({INPUT: number})
            reported.write(f"returned {number}")
    except BaseException:
        reported.write(f"failed\n{traceback.format_exc()}")
        raise


def stage(
    state: StateDirectory, stores: Iterable[tuple[Subject, Any]], seed: int, number: int
) -> None:
    """Make the changes of a commit, each with an input record.

    The offset of these input records is the number of the commit.
    """
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

    def write_large(self, namespace: str, rows: Rows) -> bool:
        self.owner.step()
        written = self.inner.write_large(namespace, rows)
        self.owner.step()
        return written

    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        self.owner.step()
        count = self.inner.load(namespace, chunks)
        self.owner.step()
        return count

    def sync(self) -> None:
        self.owner.step()
        self.inner.sync()
        self.owner.step()


class DyingEngine(WrappedEngine):
    """An engine that kills its process before or after a call that writes.

    Attributes
    ----------
    calls_left : int or None
        The number of points that the process still survives. A point is the beginning or the end of
        a call that writes. If None, the process is never killed.
    """

    database_type: ClassVar[type[WrappedDatabase]] = _DyingDatabase

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.calls_left: int | None = None

    def step(self) -> None:
        """Count down the points that are left. Kill the process if no point was left."""
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def open_child(self, root: Path, store: str, child: str, **named: Any) -> Database:
        self.step()
        database = super().open_child(root, store, child, **named)
        self.step()
        return database

    def drop_child(self, root: Path, store: str, child: str) -> None:
        self.step()
        super().drop_child(root, store, child)
        self.step()

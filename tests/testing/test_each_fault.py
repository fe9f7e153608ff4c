"""Every call of an engine fails once, in every place of a store's life, and nothing is lost by it.

A life has commits, spills, reads, segments that are made, a close, an upgrade. It is led once to
count the engine's calls, and then once for each of them, which fails. What was under way is tried
again, by the same handles or by new ones from the offsets that are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state
from kstore_core.changelog import ChangelogDirectory
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import EngineError, StorageFullError
from kstore_core.formats import TIMESTAMPED
from kstore_core.testing import Faults, FaultyEngine
from kstore_core.testing.faults import OPERATIONS
from kstore_core.testing.kinds import EDGES, LAYERED, SESSION, VERSIONED, WINDOW, Kind, Record
from kstore_core.testing.store_suite.any_kind import delete, get, items, put, spec

PARTITION = ("t", 0)
COMMITS = 4
UPGRADED = 3
"""The commit before which the store is opened as the newer kind."""

LIVES: dict[str, tuple[Kind, Kind, bool, str]] = {
    **{str(kind): (kind, kind, True, "process") for kind in LAYERED if not kind.time_ordered},
    **{
        str(edge): (edge.older, edge.newer, False, "process")
        for edge in EDGES
        if edge.newer in (VERSIONED[-1], WINDOW[2], SESSION[1])
        and edge.older.format is not TIMESTAMPED
    },
    "bare": (WINDOW[2], WINDOW[2], False, "process"),
    "without_a_log": (WINDOW[2], WINDOW[2], False, "changelog"),
    "indexed": (WINDOW[4], WINDOW[4], True, "process"),
}
"""Before and after the upgrade, whether there is a changelog, and the level."""

FULL = ("namespace", "write", "load", "sync")
"""What a full disk fails; the others fail for no reason."""

STEPS = {"memory": 1, "lmdb": 4, "rocksdb": 24}
"""Of how many calls one fails; other ones in other lives."""


class Life:
    """One store from its making to its last commit, whatever fails meanwhile."""

    def __init__(self, root: Path, engine: str, life: str, recovers: str) -> None:
        self.faults = Faults()
        self.refused: list[Exception] = []
        self._engine = FaultyEngine(engine_class(engine)(), self.faults)
        self._root = root
        self._older, self._newer, logged, level = LIVES[life]
        self._recovers = recovers
        self._state: Any = None
        self._how: dict[str, Any] = {"durability": level, "uncommitted_max_bytes": 250}
        if logged:
            self._how["changelog"] = ChangelogDirectory(root / "logs", application_id="a")

    def kind(self, number: int) -> Kind:
        return self._newer if number >= UPGRADED else self._older

    def record(self, number: int, at: int) -> Record:
        headers = [("commit", b"%d" % number)]
        return self._older.record(b"%d %d " % (number, at) + b"v" * 20, 1000 + number, headers)

    def lead(self) -> None:
        """Make all commits, each again until it succeeds."""
        number = 1
        while number <= COMMITS:
            try:
                number = self._commit(number)
            except (EngineError, StorageFullError) as error:
                self.refused.append(error)
                assert len(self.refused) < 9, "it goes on failing"
                if self._recovers == "reopening":
                    self._close()
        self._close()

    def _commit(self, number: int) -> int:
        """Make a commit; the number of the next one."""
        kind = self.kind(number)
        if self._state is None:
            self._state = open_state(self._root / "0_0", engine=self._engine, **self._how)
        store = self._state.open(spec(kind))
        stored = store.offsets().get(PARTITION, 0)
        if stored >= number:  # it failed when all was written that counts
            assert stored == number
            assert self._recovers == "reopening"
            return self._next(number)
        assert stored == number - 1, "a commit that returned is there"
        for at in range(number, number + 6):
            put(kind, store, b"k%d" % at, self._as(kind, self.record(number, at)))
        delete(kind, store, b"k%d" % (number + 2), 1000 + number)
        assert get(kind, store, b"k%d" % (number + 2)) is None
        items(kind, store)
        self._state.flush()
        self._state.commit({PARTITION: number})
        return self._next(number)

    def _next(self, number: int) -> int:
        if number + 1 == UPGRADED:
            self._close()
        return number + 1

    @staticmethod
    def _as(kind: Kind, record: Record) -> Record:
        return kind.record(record.data, record.timestamp, record.headers)

    def _close(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            try:
                state.close()
            except (EngineError, StorageFullError) as error:
                self.refused.append(error)

    def contents(self) -> Any:
        """What is there at the end."""
        self.faults.calm()
        with open_state(self._root / "0_0", engine=self._engine, **self._how) as state:
            store = state.open(spec(self._newer))
            found = items(self._newer, store)
            return store.offsets()[PARTITION], store.stream_time, found


def faulty_lives(root: Path, *how: str) -> Iterator[tuple[str, int, Life]]:
    """A life for each call that can fail."""
    whole = Life(root / "whole", *how)
    whole.lead()
    counts = whole.faults.counts.copy()
    wanted = whole.contents()
    assert wanted[0] == COMMITS
    assert len(wanted[2]) > 4
    step = STEPS[how[0]]
    first = 1 + len("".join(how)) % step
    for operation in filter(counts.__getitem__, OPERATIONS):
        for nth in range(min(first, counts[operation]), counts[operation] + 1, step):
            life = Life(root / f"{operation}-{nth}", *how)
            error = StorageFullError if operation in FULL else EngineError
            life.faults.fail(operation, nth, error)
            yield operation, nth, life
            assert life.contents() == wanted, f"{operation} {nth} failed: {life.refused}"


@pytest.mark.parametrize("recovers", ["retrying", "reopening"])
@pytest.mark.parametrize("life", LIVES)
def test_whatever_fails_once_nothing_is_lost(
    tmp_path: Path, engine: str, life: str, recovers: str
) -> None:
    failed = set()
    for operation, nth, one in faulty_lives(tmp_path, engine, life, recovers):
        one.lead()
        if not one.refused:
            continue  # an expired segment that stays, a look that is not asked for
        first = one.refused[0]
        assert f"planned fault: {operation} number {nth}" in f"{first} {first.__cause__}"
        failed.add(operation)
    assert failed >= {"open", "write"}

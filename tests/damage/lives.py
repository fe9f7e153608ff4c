"""Stores written commit by commit, as killed processes leave them, one copy after each commit.

A copy of the files of a process that writes is what SIGKILL leaves. Damage takes bytes of one file
away, or puts those of an earlier copy in their place. Whatever comes of it, the offsets that a
store tells are to be behind its rows: the input is processed again from there, and then the store
holds what it would hold without the damage.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core import StateDirectory, open_state, stores
from kstore_core.errors import KStoreError
from kstore_core.spec import StoreSpec
from tests.damage.homes import PUT
from tests.damage.homes import SPECS as LARGE
from tests.damage.reading import rows_of

INPUT = ("input", 0)
COMMITS = 8
ROWS = 40
SPECS: dict[str, StoreSpec] = LARGE | {
    "clicks": stores.timestamped_window_with_headers("clicks", 20_000, 1_000, False, 5_000),
    "visits": stores.session_with_headers("visits", 20_000, 5_000),
}
"""Windows and sessions in eight segments, of which some expire."""

DAMAGES = ("emptied", "cut", "removed", "zeroed", "older")
_NO_DATA = ("LOG", "LOCK", "lock.mdb", ".kstore.lock")


class Life(NamedTuple):
    """A store's copies, oldest first, and what it holds in the end."""

    kind: str
    engine: str
    copies: list[Path]
    rows: list[Any]

    @property
    def root(self) -> Path:
        """The directory that was written, and closed at the end."""
        return self.copies[0].parents[1] / "0_0"


class Trial(NamedTuple):
    """One damage to one file of the copy after a commit."""

    what: str
    file: Path
    commit: int
    at: float

    def do(self, life: Life, root: Path) -> bool:
        """Do it to a fresh copy in ``root``; tells whether it changed anything."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(life.copies[self.commit], root)
        path = root / self.file
        if path.is_dir():
            return self._do_to_database(life, path)
        before = path.read_bytes()
        if self.what == "removed":
            path.unlink()
            return True
        if self.what == "older":
            earlier = [copy / self.file for copy in life.copies[: self.commit]]
            there = [copy.read_bytes() for copy in earlier if copy.is_file()]
            after = there[int(self.at * len(there))] if there else before
        elif self.what == "cut":
            after = before[: int(self.at * len(before))]
        else:
            after = b"" if self.what == "emptied" else bytes(len(before))
        path.write_bytes(after)
        return after != before

    def _do_to_database(self, life: Life, path: Path) -> bool:
        shutil.rmtree(path)
        earlier = [copy / self.file for copy in life.copies[: self.commit]]
        there = [copy for copy in earlier if copy.is_dir()]
        if self.what == "older" and there:
            shutil.copytree(there[int(self.at * len(there))], path)
        return self.what == "removed" or bool(there)


def process(state: StateDirectory, kind: str, first: int, beyond: int) -> Any:
    """Process the input of the commits ``first <= commit < beyond``; gives the store."""
    store = state.open(SPECS[kind])
    for commit in range(first, beyond):
        for number in range(commit * ROWS, (commit + 1) * ROWS):
            # Not in the order of their time, so that most commits write to several segments.
            PUT[kind](store, number if number % 3 else max(0, number - 2 * ROWS))
        state.commit({INPUT: commit})
    return store


def lived(kind: str, engine: str, folder: Path, *, closed_after: int = 2) -> Life:
    """Write a store, closing it once, and copy it after each commit."""
    root, copies = folder / "0_0", []
    state = open_state(root, engine=engine)
    for commit in range(COMMITS):
        if commit == closed_after:
            state.close()
            state = open_state(root, engine=engine)
        process(state, kind, commit, commit + 1)
        copies.append(folder / f"after-{commit}" / "0_0")
        shutil.copytree(root, copies[-1])
    rows = rows_of(state.open(SPECS[kind]))
    state.close()
    return Life(kind, engine, copies, rows)


def trials(life: Life, seed: int) -> Iterator[Trial]:
    """Every kind of damage to every file of two copies, chosen by a seed."""
    chosen = random.Random(f"{seed}{life.kind}{life.engine}")
    for commit in {COMMITS - 1, chosen.randrange(1, COMMITS - 1)}:
        root = life.copies[commit]
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.name.startswith(_NO_DATA):
                for what in DAMAGES:
                    yield Trial(what, path.relative_to(root), commit, chosen.random())
            elif (path / "CURRENT").is_file():
                for what in ("removed", "older"):
                    yield Trial(what, path.relative_to(root), commit, chosen.random())


def cut_power(life: Life, commit: int, root: Path, chosen: random.Random) -> None:
    """Take from a fresh copy what a power cut may: the end of each write-ahead log, not synced.

    The first commit to a segment is synced. A copy after it shows how long its log was then.
    """
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(life.copies[commit], root)
    for path in root.rglob("*.log"):
        file = path.relative_to(root)
        first = next(copy for copy in life.copies if (copy / file.parent).is_dir())
        synced = (first / file).stat().st_size if (first / file).is_file() else 0
        os.truncate(path, chosen.randint(synced, path.stat().st_size))


def outcome(life: Life, root: Path) -> str:
    """What became of a damaged store: ``right``, the name of a typed error, or ``wrong: …``."""
    try:
        with open_state(root, engine=life.engine) as state:
            told = state.offsets().get(INPUT, -1)
            state.open(SPECS[life.kind])
            if state.offsets().get(INPUT, -1) != told:
                return f"wrong: offsets {told} before the store is opened, {state.offsets()} then"
            store = process(state, life.kind, told + 1, COMMITS)
            if rows_of(store) != life.rows:
                return f"wrong: processed again from {told + 1} on, rows differ"
    except KStoreError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - it should have been an error of kstore
        return f"wrong: {error!r}"
    return "right"


def try_all(
    life: Life, folder: Path, seed: int, *, at_most: int | None = None
) -> tuple[Counter[str], list[str]]:
    """Do each trial, or so many of them; how many had which outcome, and those that were wrong."""
    seen: Counter[str] = Counter()
    wrong = []
    chosen = list(trials(life, seed))
    if at_most is not None and at_most < len(chosen):
        chosen = random.Random(seed).sample(chosen, at_most)
    for trial in chosen:
        root = folder / "damaged" / "0_0"
        if not trial.do(life, root):
            continue
        came = outcome(life, root)
        seen[came.partition(":")[0]] += 1
        if came.startswith("wrong"):
            wrong.append(f"{trial}: {came}")
    return seen, wrong

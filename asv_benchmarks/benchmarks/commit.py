"""The time of a commit, compared with the bare binding's batch of the same rows and offsets."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import cast
from unittest.mock import patch

from kstore_core import open_state
from kstore_core.changelog import ChangelogDirectory
from kstore_core.discovery.registry import engine_class, make_engine
from kstore_core.engine import Durability, Rows

from .bindings import BATCHES
from .workloads import HEADERS, KEY_VALUE, VALUE, seconds, shuffled_keys

WAYS = ("changelog", "transactional", "two stores")
"""The ways of a commit, apart from a plain commit.

``"changelog"`` writes a changelog to files. ``"transactional"`` makes a state whose other threads
read only committed rows. ``"two stores"`` needs two batches.
"""

LEVELS = tuple(
    f"{engine} {level}"
    for engine in BATCHES
    for level in engine_class(engine).capabilities.durability
)

LEAST_ROUNDS = 5


class CommitWorkload:
    """A state directory, each of whose commits writes ``rows`` rows to each store.

    The rows have values of 100 bytes and headers.
    """

    def __init__(self, engine: str, level: Durability, rows: int, way: str | None = None) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-bench-"))
        self.keys = shuffled_keys(rows)
        self.offset = 0
        self.state = open_state(
            self.scratch / "app" / "0_0",
            engine=make_engine(engine),
            durability=level,
            transactional=way == "transactional",
            changelog=ChangelogDirectory(self.scratch / "logs") if way == "changelog" else None,
        )
        names = ("s", "t") if way == "two stores" else ("s",)
        self.stores = [self.state.open(KEY_VALUE["headers"](name)) for name in names]
        self.commit()  # the first commit also writes the specs of the stores
        self.batches = self._batches()
        self.bare = [
            BATCHES[engine](self.scratch / f"bare-{number}", batch, level)
            for number, batch in enumerate(self.batches)
        ]

    def _batches(self) -> list[Mapping[str, Rows]]:
        """Return the batches that a commit writes, one for each store."""
        databases = [store.table.rows.database for store in self.stores]
        with ExitStack() as stack:
            writes = [
                stack.enter_context(patch.object(database, "write", wraps=database.write))
                for database in databases
            ]
            self.commit()
        return [batch for write in writes for (batch,), _ in write.call_args_list]

    def close(self) -> None:
        for bare in self.bare:
            bare.close()
        self.state.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def commit(self) -> float:
        """Put rows, commit them, and return the seconds that only the commit took."""
        for store in self.stores:
            for key in self.keys:
                store.put(key, VALUE, timestamp=1_700_000_000_000, headers=HEADERS)
        self.offset += 1
        offsets = {("input", 0): self.offset}
        return seconds(lambda: self.state.commit(offsets))

    def write(self) -> None:
        """Write the same batches with the binding."""
        for bare, batch in zip(self.bare, self.batches, strict=True):
            bare.write(batch)

    def over_bare(self, budget_s: float = 0.1) -> float:
        """Return the shortest commit divided by the binding's shortest write.

        The two alternate for ``budget_s`` seconds.
        """
        pairs: list[tuple[float, float]] = []
        end = time.perf_counter() + budget_s
        while time.perf_counter() < end or len(pairs) < LEAST_ROUNDS:
            pairs.append((self.commit(), seconds(self.write)))
        return min(ours for ours, _ in pairs) / min(theirs for _, theirs in pairs)


class Commit:
    """Commits of one store, at each level of durability that the engine has."""

    params = (LEVELS, (1, 1000))
    param_names = ("level", "rows")
    timeout = 60

    def setup(self, level: str, rows: int) -> None:
        engine, durability = level.split()
        self.work = CommitWorkload(engine, cast("Durability", durability), rows)

    def teardown(self, level: str, rows: int) -> None:
        self.work.close()

    def track_over_bare(self, level: str, rows: int) -> float:
        return self.work.over_bare()

    track_over_bare.unit = "ratio"  # type: ignore[attr-defined]


class CommitWith:
    """Commits at the level ``"process"`` that do more, or that write only an offset."""

    params = (tuple(BATCHES), [(way, rows) for way in WAYS for rows in (1, 1000)] + [(None, 0)])
    param_names = ("engine", "way")
    timeout = 60

    def setup(self, engine: str, way: tuple[str | None, int]) -> None:
        self.work = CommitWorkload(engine, "process", way[1], way[0])

    def teardown(self, engine: str, way: tuple[str | None, int]) -> None:
        self.work.close()

    def track_over_bare(self, engine: str, way: tuple[str | None, int]) -> float:
        return self.work.over_bare()

    track_over_bare.unit = "ratio"  # type: ignore[attr-defined]

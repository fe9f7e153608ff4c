"""The state machine of a database, which compares every read with a dict of dicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from kstore_core.engine import (
    DURABILITY_LEVELS,
    Capabilities,
    Chunk,
    Database,
    Durability,
    Namespace,
    Rows,
    Snapshot,
)
from kstore_core.testing import strategies
from kstore_core.testing.engine_suite.base import Pairs, path_under, read, within
from kstore_core.testing.machines.scratch import ScratchMachine
from kstore_core.testing.models import EngineModel

__all__ = ["EngineMachine"]

NAMES = st.sampled_from(strategies.NAMESPACES)
FEW = 3

some_keys = st.runner().flatmap(lambda machine: strategies.keys(machine.able))
some_rows = st.runner().flatmap(lambda machine: strategies.rows(machine.able))
some_batch = st.runner().flatmap(lambda machine: strategies.batches(machine.able))

LOOKUP = rule(
    name=NAMES, lo=strategies.bounds(), hi=strategies.bounds(), keys=st.lists(some_keys, max_size=8)
)


class EngineMachine(ScratchMachine):
    """A state machine whose rules change a database and its model, and compare their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.model = EngineModel(strategies.NAMESPACES)
        self.moments: list[tuple[Snapshot, EngineModel]] = []
        self.scans: list[tuple[Iterator[Chunk], Pairs, Snapshot | None]] = []
        self.copies = 0
        self.database: Database | None = None

    @property
    def able(self) -> Capabilities:
        return self.engine.capabilities

    @property
    def live(self) -> Database:
        assert self.database is not None
        return self.database

    @initialize(level=st.sampled_from(DURABILITY_LEVELS))
    def begin(self, level: Durability) -> None:
        self.level = level
        self.database = self.engine.open(self.scratch, "s", durability=level)
        for name in strategies.NAMESPACES:
            self.database.namespace(name)

    @rule(batch=some_batch)
    def write(self, batch: dict[str, Rows]) -> None:
        self.live.write(batch)
        self.model.write(batch)
        for rows in batch.values():  # the engine must have copied the lists of the caller
            rows.keys.clear()
            rows.values.clear()
            rows.deleted_ranges.append((b"", None))

    @rule(name=NAMES, rows=some_rows, size=st.integers(1, 5))
    def load(self, name: str, rows: dict[bytes, bytes], size: int) -> None:
        keys = sorted(rows)
        parts = [keys[start : start + size] for start in range(0, len(keys), size)]
        loaded = self.live.load(name, [(part, [rows[key] for key in part]) for part in parts])
        assert loaded == len(rows), "load returns the number of loaded rows"
        self.model.namespaces[name].update(rows)

    @rule(name=NAMES, batch=some_batch)
    def write_large(self, name: str, batch: dict[str, Rows]) -> None:
        for rows in batch.values():
            rows.deleted_ranges.clear()
            if not self.live.write_large(name, rows):
                self.live.write({name: rows})
            self.model.write({name: rows})

    @LOOKUP
    def look(self, name: str, lo: Any, hi: Any, keys: list[bytes]) -> None:
        compare(self.live.namespace(name), self.model.namespaces[name], lo, hi, keys)

    @precondition(lambda self: self.moments)
    @LOOKUP
    def look_at_moments(self, name: str, lo: Any, hi: Any, keys: list[bytes]) -> None:
        for snapshot, model in self.moments:
            compare(snapshot.namespace(name), model.namespaces[name], lo, hi, keys)

    @precondition(lambda self: len(self.moments) < FEW)
    @rule()
    def take_a_snapshot(self) -> None:
        self.moments.append((self.live.snapshot(), self.model.copy()))

    @precondition(lambda self: self.moments)
    @rule(which=st.integers(0, FEW))
    def close_a_snapshot(self, which: int) -> None:
        snapshot, _ = self.moments.pop(which % len(self.moments))
        self.scans = [scan for scan in self.scans if scan[2] is not snapshot]
        snapshot.close()

    @precondition(lambda self: len(self.scans) < FEW)
    @rule(
        name=NAMES,
        lo=strategies.bounds(),
        hi=strategies.bounds(),
        reverse=st.booleans(),
        moment=st.booleans(),
    )
    def begin_a_scan(self, name: str, lo: Any, hi: Any, reverse: bool, moment: bool) -> None:
        source, model, snapshot = self.live.namespace(name), self.model, None
        if moment and self.moments:
            snapshot, model = self.moments[-1]
            source = snapshot.namespace(name)
        wanted = within(model.namespaces[name], lo, hi, reverse=reverse)
        self.scans.append((source.scan(lo, hi, reverse=reverse), wanted, snapshot))

    @precondition(lambda self: self.scans)
    @rule(which=st.integers(0, FEW))
    def finish_a_scan(self, which: int) -> None:
        scan, wanted, _ = self.scans.pop(which % len(self.scans))
        assert read(scan) == wanted, "a scan shows the rows as of its call"

    @rule(name=st.sampled_from(strategies.NAMESPACES[1:]))
    def drop_a_namespace(self, name: str) -> None:
        self.scans.clear()
        self.live.drop_namespace(name)
        self.live.namespace(name)
        self.model.namespaces[name] = {}

    @rule()
    def sync(self) -> None:
        self.live.sync()

    @rule(level=st.sampled_from(DURABILITY_LEVELS))
    def reopen(self, level: Durability) -> None:
        self.live.close()
        self.moments.clear()
        self.scans.clear()
        if self.able.persistent:
            self.engine = self.make_engine()
        self.level = level
        self.database = self.engine.open(self.scratch, "s", durability=level)

    @rule()
    def read_beside_the_writer(self) -> None:
        if self.level == "changelog":
            self.live.sync()
        self.read_only(self.scratch)

    @precondition(lambda self: self.able.checkpoint)
    @rule()
    def read_a_checkpoint(self) -> None:
        if self.level == "changelog":
            self.live.sync()
        self.copies += 1
        root = self.scratch / f"copy{self.copies}"
        self.live.checkpoint(path_under(root, self.live, self.scratch))
        self.read_only(root)

    def read_only(self, root: Path) -> None:
        reader = self.engine.open(root, "s", read_only=True)
        try:
            for name, rows in self.model.namespaces.items():
                found = read(reader.namespace(name))
                assert found == within(rows, None, None), (
                    f"{name!r} of {root} has the written rows when it is opened read-only"
                )
        finally:
            reader.close()

    @invariant()
    def all_rows_are_there(self) -> None:
        if self.database is not None:
            for name, rows in self.model.namespaces.items():
                found = read(self.database.namespace(name))
                assert found == within(rows, None, None), f"{name!r} has the written rows"

    def teardown(self) -> None:
        if self.database is not None:
            self.database.close()
        super().teardown()


def compare(
    namespace: Namespace,
    model: dict[bytes, bytes],
    lo: bytes | None,
    hi: bytes | None,
    keys: list[bytes],
) -> None:
    for reverse in (False, True):
        wanted = within(model, lo, hi, reverse=reverse)
        promise = f"scan({lo!r}, {hi!r}, reverse={reverse}) returns lo <= key < hi"
        assert read(namespace.scan(lo, hi, reverse=reverse)) == wanted, promise
        assert namespace.first(lo, hi, reverse=reverse) == (wanted[0] if wanted else None), promise
    values = [model.get(key) for key in keys]
    assert namespace.get_many(keys) == values, "get_many keeps the order of its keys"
    assert [namespace.get(key) for key in keys] == values, "get returns the value or None"
    assert namespace.approximate_count() >= 0, "a count is never negative"

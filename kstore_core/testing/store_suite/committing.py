"""Tests of staging, commits, spills, transactions and readers, on every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstore_core.errors import (
    SpecError,
    StateError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.state import StateDirectory
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from kstore_core.testing.store_suite import any_kind
from kstore_core.testing.store_suite.any_kind import keys, spec
from kstore_core.testing.store_suite.base import PARTITION, StorePart
from kstore_core.testing.suite import refuses

EACH_KIND = pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)


class CommitPromises(StorePart):
    """Tests of ``open_state``, ``commit`` and ``close`` with stores of every kind."""

    @EACH_KIND
    def test_offsets_are_those_of_the_commit(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(spec(kind))
        assert store.offsets() == {}, "offsets of a new store are empty"
        for number in range(3):
            put(kind, store, b"%d" % number, b"v")
            assert len(keys(kind, store)) == number + 1, "staged rows are visible"
            state.commit({PARTITION: number})
            assert store.offsets() == {PARTITION: number}, "offsets are those of the last commit"
            state = self.reopen(state)
            store = state.open(spec(kind))
            assert store.offsets() == state.offsets() == {PARTITION: number}, (
                "offsets are those of the last commit after a reopen"
            )
            assert len(keys(kind, store)) == number + 1, (
                "the committed rows are there after a reopen"
            )
        state.commit()
        assert store.offsets() == {PARTITION: 2}, (
            "a commit without offsets leaves the offsets unchanged"
        )

    @EACH_KIND
    def test_another_shape_is_refused(self, kind: Kind) -> None:
        state = self.state()
        put(kind, state.open(spec(kind)), b"k", b"v")
        state.commit()
        for other in KINDS:
            if other.shape != kind.shape:
                for read_only in (False, True):
                    state = self.reopen(state, read_only=read_only)

                    def open_it(state: StateDirectory = state, other: Kind = other) -> None:
                        state.open(spec(other))

                    refuses(SpecError, open_it, f"a {kind} store opened as {other}", other.shape)
                    assert keys(kind, state.open(spec(kind))) == [b"k"], (
                        "a refused open changes nothing"
                    )

    @EACH_KIND
    def test_an_exception_discards_what_is_staged(self, kind: Kind) -> None:
        with self.state() as state:
            put(kind, state.open(spec(kind)), b"kept", b"v")

        def fail() -> None:
            with self.state() as state:
                put(kind, state.open(spec(kind)), b"discarded", b"v")
                raise LookupError("the job failed")

        refuses(LookupError, fail, "a job that fails", "the job failed")
        with self.state() as state:
            store = state.open(spec(kind))
            assert keys(kind, store) == [b"kept"], (
                "an exception discards staged rows; a normal exit commits them"
            )
            put(kind, store, b"closed", b"v")
            state.close()
        assert keys(kind, self.state().open(spec(kind))) == [b"kept"], (
            "a close without a commit discards staged rows"
        )

    @EACH_KIND
    def test_a_spill_keeps_offsets_behind_the_rows(self, kind: Kind) -> None:
        state = self.state(uncommitted_max_bytes=400)
        store = state.open(spec(kind))
        put(kind, store, b"k000", b"v" * 30)
        state.commit({PARTITION: 0})
        for number in range(1, 40):
            put(kind, store, b"k%03d" % number, b"v" * 30)
            assert state.staged_bytes <= 400, "staged bytes stay within uncommitted_max_bytes"
        assert len(keys(kind, store)) == 40, "spilled rows are visible"
        store = self.reopen(state).open(spec(kind))
        found = keys(kind, store)
        assert found == [b"k%03d" % number for number in range(len(found))]
        assert 1 < len(found) < 40, (
            "spilled rows survive a close without a commit; staged rows do not"
        )
        assert store.offsets() == {PARTITION: 0}, "offsets are never ahead of the rows"

    @EACH_KIND
    def test_a_transaction_is_refused_beyond_its_limit(self, kind: Kind) -> None:
        state = self.state(transactional=True, uncommitted_max_bytes=300)
        store = state.open(spec(kind))
        put(kind, store, b"a", b"v" * 100)
        refuses(
            UncommittedLimitError,
            lambda: put(kind, store, b"b", b"v" * 300),
            "a transaction beyond its limit",
            "uncommitted_max_bytes=300",
        )
        assert keys(kind, store) == [b"a"], "a refused put stages nothing"
        with self.state(read_only=True) as reader:
            if spec(kind).name in reader.stores():
                assert keys(kind, reader.open(spec(kind))) == [], (
                    "a reader does not see staged rows"
                )
        state.commit({PARTITION: 1})
        put(kind, store, b"b", b"v" * 100)
        store = self.reopen(state).open(spec(kind))
        assert keys(kind, store) == [b"a"], "staged rows are missing after a reopen"
        assert store.offsets() == {PARTITION: 1}

    @EACH_KIND
    def test_a_reader_writes_nothing(self, kind: Kind) -> None:
        missing = lambda: self.state(read_only=True).open(spec(kind))  # noqa: E731
        refuses(StateError, missing, "a read-only open of a missing state directory")
        writer = self.state()
        store = writer.open(spec(kind))
        put(kind, store, b"a", b"1")
        writer.commit({PARTITION: 5})
        put(kind, store, b"b", b"staged")
        reader = self.state(read_only=True)
        seen = reader.open(spec(kind))
        assert keys(kind, seen) == [b"a"], "a reader sees committed rows only"
        assert seen.offsets() == {PARTITION: 5}
        uses: dict[str, Callable[[], Any]] = {
            "put": lambda: put(kind, seen, b"c", b"v"),
            "commit": lambda: reader.commit(),
        }
        for name, use in uses.items():
            refuses(UnsupportedError, use, f"{name} of a read-only state", "read_only")
        reader.close()
        writer.commit()
        assert keys(kind, self.state(read_only=True).open(spec(kind))) == [b"a", b"b"], (
            "a later reader sees later commits"
        )

    @EACH_KIND
    def test_after_close_everything_says_so(self, kind: Kind) -> None:
        state = self.state()
        store = state.open(spec(kind))
        for number in range(600):
            put(kind, store, b"%04d" % number, b"v")
        state.commit()
        scan = any_kind.scan(kind, store)
        next(scan)
        state.close()
        uses: dict[str, Callable[[], Any]] = {
            "get": lambda: any_kind.get(kind, store, b"0000"),
            "get_many": lambda: any_kind.get_many(kind, store, [b"0000"]),
            "put": lambda: put(kind, store, b"k", b"v"),
            "all": lambda: list(any_kind.scan(kind, store)),
            "a scan that was begun": lambda: list(scan),
            "commit": lambda: state.commit(),
            "open": lambda: state.open(spec(kind)),
        }
        for name, use in uses.items():
            refuses(StoreClosedError, use, f"{name} after close")

    def test_stores_of_a_state_are_apart_and_committed_together(self) -> None:
        state = self.state()
        opened = {kind: state.open(spec(kind, str(kind))) for kind in KINDS}
        for number, (kind, store) in enumerate(opened.items()):
            put(kind, store, b"k%d" % number, b"v")
        state.commit({PARTITION: 3})
        state = self.reopen(state)
        assert state.stores() == sorted(map(str, KINDS)), "stores() lists each store"
        for number, kind in enumerate(KINDS):
            assert keys(kind, state.open(spec(kind, str(kind)))) == [b"k%d" % number], (
                "each store has its own rows"
            )
        assert state.offsets() == {PARTITION: 3}


def put(kind: Kind, store: Any, key: bytes, data: bytes) -> None:
    """Put a record into a store of any kind."""
    any_kind.put(kind, store, key, kind.record(data, 50))

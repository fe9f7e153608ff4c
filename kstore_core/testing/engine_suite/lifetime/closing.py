"""Tests that a closed database raises an error at each use, and that no lock remains."""

from __future__ import annotations

import gc

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import KStoreError, StoreClosedError
from kstore_core.testing.engine_suite.base import STORE, EnginePart, numbered, put, read, refuses
from kstore_core.testing.engine_suite.uses import every_use


class ClosePromises(EnginePart):
    """Tests of ``close``."""

    @pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
    def test_everything_after_close_says_so(self, read_only: bool) -> None:
        database = self.filled(numbered(5000))
        put(database, {b"n": b"1"}, "offsets")
        if read_only:
            database = self.reopen(database, read_only=True)
        target = self.root.parent / "checkpoint"
        uses = every_use(database, target)
        database.close()
        database.close()
        for name, use in uses.items():
            refuses(StoreClosedError, use, f"{name} after Database.close", STORE)
        assert not target.exists(), "a refused checkpoint makes no files"
        database = self.open()
        assert len(read(database)) == 5000, "every row is there after a close"
        assert sorted(database.namespaces()) == ["default", "offsets"], (
            "a use after a close makes no namespace"
        )

    def test_close_frees_the_store_under_open_scans_and_snapshots(self) -> None:
        database = self.filled(numbered(5000))
        namespace = database.namespace("default")
        snapshot = database.snapshot()
        scan, of_snapshot = namespace.scan(), snapshot.namespace("default").scan()
        next(scan), next(of_snapshot)
        second = self.reopen(database)
        put(second, {b"z": b"1"})
        for one in (scan, of_snapshot):
            refuses(StoreClosedError, lambda one=one: read(one), "a scan", STORE)  # type: ignore[misc]
        snapshot.close()
        assert len(read(second)) == 5001, (
            "a store can be opened again while scans of the closed handle exist"
        )

    def test_close_frees_the_store_while_errors_are_referred_to(self) -> None:
        database = self.filled({b"k": b"v"})
        errors = []
        for use in (
            lambda: database.drop_namespace("default"),
            lambda: database.drop_namespace("nowhere"),
            lambda: database.write({"default": Rows([5], [b"1"])}),  # type: ignore[list-item]
            lambda: database.write({"nowhere": Rows([b"k"], [b"1"])}),
            lambda: database.load("default", [([b"b", b"a"], [b"1", b"2"])]),
        ):
            with pytest.raises((KStoreError, KeyError, TypeError, ValueError)) as caught:
                use()
            errors.append(caught)  # a traceback refers to frames, and frames refer to variables
        database = self.reopen(database)
        assert database.namespace("default").get(b"k") == b"v"
        assert len(errors) == 5

    def test_handles_that_are_dropped_after_close_are_quiet(self) -> None:
        database = self.filled(numbered(100))
        handles: list[object] = [database.namespace("default"), database.snapshot()]
        handles += [database.namespace("default").scan() for _ in range(3)]
        database.close()
        handles.clear()
        gc.collect()  # a warning or an error in a destructor fails the test
        assert len(read(self.open())) == 100

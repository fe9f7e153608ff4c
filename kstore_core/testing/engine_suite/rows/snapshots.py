"""Tests that a snapshot shows each namespace as it was when the snapshot was taken."""

from __future__ import annotations

import gc

import pytest

from kstore_core.engine import Rows
from kstore_core.errors import StoreClosedError
from kstore_core.testing.engine_suite.base import STORE, EnginePart, numbered, put, read, within
from kstore_core.testing.explaining import same
from kstore_core.testing.suite import refuses

NAMES = ["default", "offsets", "other"]


class SnapshotPromises(EnginePart):
    """Tests of ``Database.snapshot`` and ``Snapshot``."""

    def test_a_snapshot_does_not_move(self) -> None:
        rows = numbered(3000)
        database = self.open()
        for name in NAMES:
            put(database, rows, name)
        with database.snapshot() as snapshot:
            for name in NAMES:
                put(database, dict.fromkeys(list(rows)[::3], b"changed"), name)
                put(database, numbered(100, start=5000), name)
                database.write({name: Rows(deleted_ranges=[(b"%08d" % 1000, None)])})
            database.sync()
            keys = list(rows)
            for name in NAMES:
                then = snapshot.namespace(name)
                promise = f"the namespace {name!r} of a snapshot shows the rows as of the snapshot"
                assert then.name == name, "a namespace has its name"
                same(read(then), list(rows.items()), promise)
                for reverse in (False, True):
                    same(
                        read(then.scan(keys[10], keys[2000], reverse=reverse)),
                        within(rows, keys[10], keys[2000], reverse=reverse),
                        promise,
                    )
                    assert (
                        then.first(keys[7], reverse=reverse)
                        == (within(rows, keys[7], None, reverse=reverse)[0])
                    ), promise
                same(then.get_many([*keys, b"no"]), [*rows.values(), None], promise)
                assert then.get(keys[-1]) == b"v", promise
                assert then.fast_get(keys[0]) == b"v", promise
                assert then.get(b"%08d" % 5000) is None, promise
                assert then.approximate_count() >= 0, "a count is never negative"
        assert len(read(database)) == 1000, "the database still reads its own rows"

    def test_a_snapshot_keeps_a_namespace_that_is_dropped(self) -> None:
        rows = numbered(500)
        database = self.open()
        put(database, rows, "gone")
        with database.snapshot() as snapshot:
            then = snapshot.namespace("gone")
            database.drop_namespace("gone")
            put(database, {b"new": b"v"}, "gone")
            same(
                read(then),
                list(rows.items()),
                "a snapshot has the rows of a namespace that is dropped later",
            )
            same(
                read(snapshot.namespace("gone")),
                list(rows.items()),
                "a snapshot opens a namespace that was dropped later",
            )

    def test_a_snapshot_has_the_namespaces_that_there_were(self) -> None:
        database = self.open()
        with database.snapshot() as snapshot:
            put(database, {b"k": b"v"})
            put(database, {b"k": b"v"}, "later")
            assert read(snapshot) == [], "a snapshot does not show later rows"
            with pytest.raises(KeyError):
                snapshot.namespace("later")

    def test_snapshots_are_moments_apart(self) -> None:
        database = self.open()
        moments = []
        for number in range(5):
            put(database, {b"k": b"%d" % number, b"k%d" % number: b"v"})
            moments.append(database.snapshot())
        for number, moment in enumerate(moments):
            then = moment.namespace("default")
            assert then.get(b"k") == b"%d" % number, (
                "each snapshot shows the rows as of its own call"
            )
            assert len(read(then)) == number + 2, "each snapshot shows the rows as of its own call"
        for moment in moments[::2]:
            moment.close()
        assert moments[1].namespace("default").get(b"k") == b"1", (
            "a close of one snapshot leaves the others open"
        )
        for moment in moments:
            moment.close()

    def test_scans_of_a_snapshot_do_not_disturb_each_other(self) -> None:
        rows = numbered(2000)
        database = self.filled(rows)
        with database.snapshot() as snapshot:
            then = snapshot.namespace("default")
            forward, backward = then.scan(), then.scan(reverse=True)
            seen: tuple[list[bytes], list[bytes]] = ([], [])
            put(database, dict.fromkeys(rows))
            for chunk, other in zip(forward, backward, strict=True):
                seen[0].extend(chunk[0])
                seen[1].extend(other[0])
                then.first()
            same(seen, (list(rows), list(rows)[::-1]), "scans of a snapshot are independent")

    def test_a_closed_snapshot_is_over(self) -> None:
        database = self.filled(numbered(5000))
        snapshot = database.snapshot()
        then = snapshot.namespace("default")
        scan = then.scan()
        next(scan)
        snapshot.close()
        snapshot.close()
        for name, use in {
            "Snapshot.namespace": lambda: snapshot.namespace("default"),
            "Namespace.get of a snapshot": lambda: then.get(b"k"),
            "Namespace.get_many of a snapshot": lambda: then.get_many([b"k"]),
            "Namespace.scan of a snapshot": lambda: read(then),
            "Namespace.first of a snapshot": lambda: then.first(),
            "a scan that a snapshot began": lambda: read(scan),
        }.items():
            refuses(StoreClosedError, use, f"{name} after Snapshot.close", STORE)
        assert len(read(database)) == 5000, "the database still reads its own rows"

    def test_dropped_snapshots_free_what_they_hold(self) -> None:
        database = self.filled(numbered(500))
        for number in range(300):
            snapshot = database.snapshot()
            next(snapshot.namespace("default").scan())
            if number % 2:
                snapshot.close()
            del snapshot
        gc.collect()
        put(database, {b"z": b"v"})
        assert len(read(self.reopen(database))) == 501, "closed and dropped snapshots hold no lock"

    def test_a_read_only_database_has_snapshots(self) -> None:
        self.filled(numbered(100)).close()
        with self.open(read_only=True).snapshot() as snapshot:
            assert len(read(snapshot)) == 100

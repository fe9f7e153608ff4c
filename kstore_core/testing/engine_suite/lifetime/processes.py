"""Tests of the rows that remain after a kill, and of the errors in a forked child."""

from __future__ import annotations

import os

import pytest

from kstore_core.engine import Durability
from kstore_core.errors import ForkedHandleError
from kstore_core.testing.engine_suite.base import STORE, EnginePart, numbered, put, read, refuses
from kstore_core.testing.engine_suite.uses import every_use
from kstore_core.testing.processes import in_fork, killed_writer


class ProcessPromises(EnginePart):
    """Tests of SIGKILL and of forks."""

    @pytest.mark.parametrize("level", ["process", "power"])
    def test_what_a_write_returned_from_survives_a_kill(self, level: Durability) -> None:
        if not self.able.persistent:
            return
        for writes in (1, 200):
            last = killed_writer(self.engine, self.root, STORE, level, writes)
            database = self.open(durability=level)
            rows = read(database)
            written = [(b"%09d" % number, b"%09d" % number * 9) for number in range(len(rows))]
            assert rows == written, "a killed writer leaves whole rows without a gap"
            assert len(rows) > last, (
                f"at durability={level!r} a write that returned survives SIGKILL: write {last} was "
                f"reported, but only {len(rows)} rows are there"
            )
            assert int(database.namespace("offsets").get(b"n") or -1) == len(rows) - 1, (
                "a batch over several namespaces is written completely or not at all"
            )
            database.close()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    def test_a_fork_is_told_and_its_parent_goes_on(self) -> None:
        database = self.filled(numbered(5000))
        put(database, {b"n": b"1"}, "offsets")
        target = self.root.parent / "checkpoint"
        uses = every_use(database, target)
        scan = database.namespace("default").scan()
        seen = read([next(scan)])

        def child() -> None:
            for name, use in uses.items():
                refuses(ForkedHandleError, use, f"{name} in a fork")
            database.close()
            database.close()

        in_fork(child)
        assert not target.exists(), "a refused checkpoint makes no files"
        assert len(seen + read(scan)) == 5000, "a scan of the parent continues"
        put(database, {b"z": b"later"})
        assert len(read(database)) == 5001, "the parent can write after a fork"
        uses.clear()
        database = self.reopen(database)
        assert len(read(database)) == 5001, "a close in the child changes nothing in the parent"

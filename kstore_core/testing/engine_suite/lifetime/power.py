"""Tests that a write waits for its sync, in a child process in which every sync fails."""

from __future__ import annotations

import pytest

from kstore_core.engine import Durability
from kstore_core.testing.engine_suite.base import STORE, EnginePart
from kstore_core.testing.processes import unsynced_writer


class PowerPromises(EnginePart):
    """Tests of ``durability="power"`` and of ``sync`` for persistent engines."""

    def test_at_the_level_power_no_write_returns_before_it_is_synced(self) -> None:
        if "power" in self.able.durability:
            self._check(None, "power", "write", 'a write at durability="power"')

    def test_at_the_level_power_no_child_returns_before_it_is_synced(self) -> None:
        if "power" in self.able.durability and self.able.children:
            self._check(f"{STORE}.0", "power", "write", 'a write to a child at durability="power"')

    def test_no_sync_returns_before_it_is_done(self) -> None:
        self._check(None, "process", "sync", "a sync")

    def _check(self, child: str | None, level: Durability, call: str, what: str) -> None:
        if not self.able.persistent:
            return
        answer = unsynced_writer(self.engine, self.root, STORE, child, level, call)
        if answer.startswith("skipped"):
            pytest.skip(f"{what} cannot be tested here: {answer.removeprefix('skipped ')}")
        assert answer == "failed", (
            f"{what} must fail if the disk does not sync, because it may return only when all rows "
            "are on the disk; but it returned without a successful fsync, fdatasync, msync or "
            "synchronous write"
        )

"""Tests by random sequences of calls on every kind of store, with and without upgrades."""

from __future__ import annotations

from typing import ClassVar

from kstore_core.testing.kinds import Edge, Kind
from kstore_core.testing.machines.key_value import KeyValueMachine
from kstore_core.testing.machines.session import SessionMachine
from kstore_core.testing.machines.versioned import VersionedMachine
from kstore_core.testing.machines.window import WindowMachine
from kstore_core.testing.running import at_random, run_machine
from kstore_core.testing.store_suite.base import (
    EACH_KEY_VALUE,
    EACH_SESSION,
    EACH_VERSIONED,
    EACH_WINDOW,
    StorePart,
)
from kstore_core.testing.store_suite.upgrading import EACH_EDGE
from kstore_core.testing.store_suite.window import EACH_WAY

MACHINES = {
    "key_value": KeyValueMachine,
    "versioned": VersionedMachine,
    "window": WindowMachine,
    "session": SessionMachine,
}


class LifePromises(StorePart):
    """Tests of all promises together, by random sequences of calls.

    Attributes
    ----------
    lives, upgrading_lives : int
        The number of sequences for each kind, and the number of sequences for each upgrade.
    """

    lives: ClassVar[int] = 8
    upgrading_lives: ClassVar[int] = 8

    @at_random
    @EACH_KEY_VALUE
    def test_random_lives(self, kind: Kind) -> None:
        run_machine(KeyValueMachine, make_engine=self.new_engine, kind=kind, examples=self.lives)

    @at_random
    @EACH_VERSIONED
    def test_random_lives_of_versions(self, kind: Kind) -> None:
        run_machine(VersionedMachine, make_engine=self.new_engine, kind=kind, examples=self.lives)

    @at_random
    @EACH_WAY
    @EACH_WINDOW
    def test_random_window_lives(self, kind: Kind, duplicates: bool) -> None:
        run_machine(
            WindowMachine,
            make_engine=self.new_engine,
            kind=kind,
            retain_duplicates=duplicates,
            examples=self.lives,
        )

    @at_random
    @EACH_SESSION
    def test_random_session_lives(self, kind: Kind) -> None:
        run_machine(SessionMachine, make_engine=self.new_engine, kind=kind, examples=self.lives)

    @at_random
    @EACH_EDGE
    def test_random_lives_with_an_upgrade(self, edge: Edge) -> None:
        run_machine(
            MACHINES[edge.older.shape],
            make_engine=self.new_engine,
            kind=edge.older,
            upgrading=True,
            examples=self.upgrading_lives,
        )

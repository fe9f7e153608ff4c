"""Tests by random sequences of calls, which find faults that no single call shows."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import given

from kstore_core.engine import Rows
from kstore_core.testing import strategies
from kstore_core.testing.engine_suite.base import EnginePart, read, within
from kstore_core.testing.explaining import same
from kstore_core.testing.models import EngineModel
from kstore_core.testing.running import at_random, quick, run_machine, shrinking_for


class LifePromises(EnginePart):
    """Random sequences of calls, which test all promises of the engine interface together.

    Attributes
    ----------
    lives : int
        The number of random sequences.
    """

    lives: ClassVar[int] = 20

    @at_random
    def test_any_rows_and_any_bounds(self) -> None:
        database = self.open()
        namespace = database.namespace("default")

        @quick(60)
        @given(strategies.rows(self.able, max_size=40), strategies.bounds(), strategies.bounds())
        def check(rows: dict[bytes, bytes], lo: bytes | None, hi: bytes | None) -> None:
            keys = sorted(rows)
            database.write({"default": Rows(keys, [rows[key] for key in keys], [(b"", None)])})
            for reverse in (False, True):
                wanted = within(rows, lo, hi, reverse=reverse)
                same(
                    read(namespace.scan(lo, hi, reverse=reverse)),
                    wanted,
                    f"scan({lo!r}, {hi!r}, reverse={reverse}) gives lo <= key < hi in order",
                )

        with shrinking_for():
            check()

    @at_random
    def test_any_batches(self) -> None:
        database = self.open()
        for name in strategies.NAMESPACES:
            database.namespace(name)
        model = EngineModel(strategies.NAMESPACES)

        @quick(80)
        @given(strategies.batches(self.able))
        def check(batch: dict[str, Rows]) -> None:
            database.write(batch)
            model.write(batch)
            for name, rows in model.namespaces.items():
                assert read(database.namespace(name)) == sorted(rows.items()), (
                    f"after the batch {batch!r} the namespace {name!r} has the written rows"
                )

        with shrinking_for():
            check()

    @at_random
    def test_random_lives(self) -> None:
        # Imported here, because the machine imports the base of this suite.
        from kstore_core.testing.machines.engine import EngineMachine

        run_machine(EngineMachine, make_engine=self.new_engine, examples=self.lives)

"""The base class of the state machines of all stores."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from kstore_core.spec import StoreSpec
from kstore_core.state import open_state
from kstore_core.testing.kinds import Kind, Record
from kstore_core.testing.machines.scratch import ScratchMachine

__all__ = ["StoreMachine"]

PARTITION = ("t", 0)


class StoreMachine(ScratchMachine):
    """A state machine that commits, spills, crashes, reopens and upgrades a store.

    ``kind`` is the kind of the store before its first upgrade. If ``upgrading`` is True, the store
    may be upgraded to newer kinds.
    """

    kind: Kind
    upgrading: ClassVar[bool] = False
    model: Any
    stored: Any

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.upgraded = False
        self.able = self.engine.capabilities
        self.model = self.new_model()
        self.stored = self.model.copy()
        self.open()

    def new_model(self) -> Any:
        raise NotImplementedError

    def spec(self) -> StoreSpec:
        return self.kind.spec("s")

    def rewrite(self) -> None:
        """Write every row of the store again, so that no row of an older format remains."""
        raise NotImplementedError

    def read(self, value: Any) -> Record | None:
        return self.kind.read(value)

    def record(self, given: Any) -> Record | None:
        return None if given is None else self.kind.record(*given)

    def open(self, **arguments: Any) -> None:
        self.state = open_state(self.scratch / "0_0", engine=self.engine, **arguments)
        self.store = self.state.open(self.spec())

    @rule()
    def commit(self) -> None:
        self.commits += 1
        self.state.commit({PARTITION: self.commits})
        self.stored = self.model.copy()

    @rule()
    def spill(self) -> None:
        self.state._staging.spill()
        self.stored = self.model.copy()

    @precondition(lambda self: self.kind.layers)
    @rule()
    def flush(self) -> None:
        self.state.flush()

    @rule(moving=st.booleans())
    def reopen(self, moving: bool) -> None:
        self.commit()
        self.state.close()
        self.open(migrate_on_read=moving)

    @rule()
    def crash(self) -> None:
        self.state.close()
        self.model = self.stored.copy()
        self.open()

    @precondition(lambda self: self.upgrading and self.kind.upgrades())
    @rule(which=st.integers(0, 3), moving=st.booleans())
    def upgrade(self, which: int, moving: bool) -> None:
        if self.upgraded:  # a store has rows of two formats at most
            self.rewrite()
        newer = self.kind.upgrades()
        self.kind = newer[which % len(newer)]
        self.upgraded = True
        self.reopen(moving)

    @invariant()
    def offsets_are_the_last_commit(self) -> None:
        wanted = {PARTITION: self.commits} if self.commits else {}
        assert self.store.offsets() == wanted, "offsets are those of the last commit"

    def teardown(self) -> None:
        self.state.close()
        super().teardown()

"""The base class of all state machines, which makes a temporary directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine

from kstore_core.engine import Engine
from kstore_core.testing.suite import files_are_sound

__all__ = ["ScratchMachine"]


class ScratchMachine(RuleBasedStateMachine):
    """The base class of the state machines.

    Attributes
    ----------
    make_engine : callable
        A function that returns a new engine. :func:`kstore_core.testing.run_machine` sets it.
    engine : Engine
        The engine of the whole run. All opens use this engine object, because an engine that stores
        its rows in memory can reopen only its own stores.
    scratch : Path
        The temporary directory, which is removed at the end of the run.
    """

    make_engine: Callable[[], Engine]

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp(prefix="kstore-machine-")).resolve()
        self.engine = self.make_engine()

    def teardown(self) -> None:
        """Check and remove the files. A subclass must first close its stores."""
        try:
            for root in [self.scratch, *filter(Path.is_dir, self.scratch.iterdir())]:
                files_are_sound(self.engine, root)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

"""State machines that compare databases and stores with plain models."""

from __future__ import annotations

from kstore_core.testing.machines.engine import EngineMachine
from kstore_core.testing.machines.key_value import KeyValueMachine
from kstore_core.testing.machines.session import SessionMachine
from kstore_core.testing.machines.store import StoreMachine
from kstore_core.testing.machines.versioned import VersionedMachine
from kstore_core.testing.machines.window import WindowMachine

__all__ = [
    "EngineMachine",
    "KeyValueMachine",
    "SessionMachine",
    "StoreMachine",
    "VersionedMachine",
    "WindowMachine",
]

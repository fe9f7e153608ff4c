"""The contract kit: what every engine has to pass, for the authors of engines.

Needs pytest and hypothesis: ``pip install 'kstore[testing]'``. See docs/extending/testing.md.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("suite", "engine_suite", "store_suite", "machines", "processes")
    )
)

from kstore_core.testing.engine_suite import EngineSuite  # noqa: E402
from kstore_core.testing.faults import Faults, FaultyEngine  # noqa: E402
from kstore_core.testing.machines import (  # noqa: E402
    EngineMachine,
    KeyValueMachine,
    SessionMachine,
    StoreMachine,
    VersionedMachine,
    WindowMachine,
)
from kstore_core.testing.running import run_machine  # noqa: E402
from kstore_core.testing.store_suite import StoreSuite  # noqa: E402
from kstore_core.testing.wrapping import (  # noqa: E402
    WrappedDatabase,
    WrappedEngine,
    WrappedNamespace,
    WrappedSnapshot,
)

__all__ = [
    "EngineMachine",
    "EngineSuite",
    "Faults",
    "FaultyEngine",
    "KeyValueMachine",
    "SessionMachine",
    "StoreMachine",
    "StoreSuite",
    "VersionedMachine",
    "WindowMachine",
    "WrappedDatabase",
    "WrappedEngine",
    "WrappedNamespace",
    "WrappedSnapshot",
    "run_machine",
]

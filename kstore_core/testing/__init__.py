"""The contract kit: what every engine has to pass, for the authors of engines.

Needs pytest and hypothesis: ``pip install 'kstore[testing]'``. See docs/extending/testing.md.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a failing assert shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in ("suite", "engine_suite", "store_suite", "machines", "processes", "killer")
    )
)

from kstore_core.testing.engine_suite import EngineSuite  # noqa: E402
from kstore_core.testing.faults import Faults, FaultyEngine  # noqa: E402
from kstore_core.testing.killer import (  # noqa: E402
    Combination,
    CrashSuite,
    Killer,
    Tally,
    combination,
    combinations,
    covering,
)
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
    "Combination",
    "CrashSuite",
    "EngineMachine",
    "EngineSuite",
    "Faults",
    "FaultyEngine",
    "KeyValueMachine",
    "Killer",
    "SessionMachine",
    "StoreMachine",
    "StoreSuite",
    "Tally",
    "VersionedMachine",
    "WindowMachine",
    "WrappedDatabase",
    "WrappedEngine",
    "WrappedNamespace",
    "WrappedSnapshot",
    "combination",
    "combinations",
    "covering",
    "run_machine",
]

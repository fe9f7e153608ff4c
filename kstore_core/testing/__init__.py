"""The tests that every engine must pass, for the authors of engines.

The tests need pytest and hypothesis: ``pip install 'pytest>=8.2' 'hypothesis>=6.100'``. See
docs/extending/testing.md.

Each module is loaded when it is first used. So the hundreds of processes that the killer starts do
not load pytest and hypothesis.
"""

import sys
from typing import TYPE_CHECKING

from kstore_core.lazy import lazily

if TYPE_CHECKING:
    from kstore_core.testing.engine_suite import EngineSuite
    from kstore_core.testing.faults import Faults, FaultyEngine
    from kstore_core.testing.interrupter import Interrupter, WedgedError
    from kstore_core.testing.interrupter.suite import InterruptSuite
    from kstore_core.testing.killer import (
        Combination,
        Killer,
        Tally,
        combination,
        combinations,
        covering,
    )
    from kstore_core.testing.killer.suite import CrashSuite
    from kstore_core.testing.machines import (
        EngineMachine,
        KeyValueMachine,
        SessionMachine,
        StoreMachine,
        VersionedMachine,
        WindowMachine,
    )
    from kstore_core.testing.running import run_machine
    from kstore_core.testing.store_suite import StoreSuite
    from kstore_core.testing.wrapping import (
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
    "InterruptSuite",
    "Interrupter",
    "KeyValueMachine",
    "Killer",
    "SessionMachine",
    "StoreMachine",
    "StoreSuite",
    "Tally",
    "VersionedMachine",
    "WedgedError",
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

# Register the modules before their import, so that a failing assert shows its values.
if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite(
        *(
            f"{__name__}.{name}"
            for name in (
                *("suite", "engine_suite", "store_suite", "machines", "processes"),
                *("killer", "interrupter"),
            )
        )
    )

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(__all__, "testing.killer"),
        "CrashSuite": "testing.killer.suite",
        "EngineSuite": "testing.engine_suite",
        "Faults": "testing.faults",
        "FaultyEngine": "testing.faults",
        "InterruptSuite": "testing.interrupter.suite",
        "Interrupter": "testing.interrupter",
        "WedgedError": "testing.interrupter",
        "StoreSuite": "testing.store_suite",
        "run_machine": "testing.running",
        **{name: "testing.machines" for name in __all__ if name.endswith("Machine")},
        **{name: "testing.wrapping" for name in __all__ if name.startswith("Wrapped")},
    },
)

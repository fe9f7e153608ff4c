"""The tests that every engine must pass, for the authors of engines.

The tests need pytest and hypothesis: ``pip install 'pytest>=8.2' 'hypothesis>=6.100'``. See
docs/extending/testing.md.

Each module is loaded when it is first used. So the hundreds of processes that the killer starts do
not load pytest and hypothesis.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

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

_MODULES = {
    "CrashSuite": "killer.suite",
    "EngineSuite": "engine_suite",
    "Faults": "faults",
    "FaultyEngine": "faults",
    "InterruptSuite": "interrupter.suite",
    "Interrupter": "interrupter",
    "WedgedError": "interrupter",
    "StoreSuite": "store_suite",
    "run_machine": "running",
    **{name: "machines" for name in __all__ if name.endswith("Machine")},
    **{name: "wrapping" for name in __all__ if name.startswith("Wrapped")},
}

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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'killer')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""An import hook that keeps the earlier paths of moved modules importable."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

MOVED = {
    "checkpoint": "state.checkpoint",
    "doctor": "maintenance.doctor",
    "interrupts": "system.interrupts",
    "migrate": "maintenance.migrate",
    "opening": "tables.upgrade.decision",
    "ordered": "engine.ordered",
    "plugins": "discovery",
    "position": "offsets.position",
    "registry": "discovery.registry",
    "spark.streaming_epochs": "spark.live.epochs",
    "staging": "tables.staging",
    "upgrade": "maintenance.finish_upgrade",
    "verify": "maintenance.verify",
    "versioned": "tables.versioned",
}
"""The present path of each moved module, by the path in the documentation of version 0.1.

The paths are relative to ``kstore_core``."""


class _Finder:
    """An import finder for the earlier paths and the paths below them.

    It must precede the finders of files in ``sys.meta_path``.
    """

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package != "kstore_core":
            return None
        for earlier, today in MOVED.items():
            if f"{rest}.".startswith(f"{earlier}."):
                below = rest.removeprefix(earlier)
                return ModuleSpec(name, _Loader(f"{package}.{today}{below}"))  # type: ignore[arg-type]
        return None


class _Loader:
    """An import loader that loads the module at another path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None. The import system then makes a module, and `exec_module` replaces it."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(self._path)


def install() -> None:
    """Make the earlier paths importable. A second call has no effect."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)

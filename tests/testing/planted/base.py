"""How a bug is planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from kstore_core.testing import WrappedEngine
from kstore_memory import MemoryEngine

PLANTED: list[type[PlantedEngine]] = []


class PlantedEngine(WrappedEngine):
    """The memory engine, wrapped, without a bug.

    Attributes
    ----------
    caught_by : tuple of str
        Tests of the engine suite that fail because of the bug, each of them.
    lives_catch : bool
        A random life comes upon it too.
    """

    name = MemoryEngine.name
    capabilities = MemoryEngine.capabilities
    caught_by: ClassVar[tuple[str, ...]] = ()
    lives_catch: ClassVar[bool] = True

    def __init__(self, options: Any = None) -> None:
        super().__init__(MemoryEngine(options))


def planted(*caught_by: str, lives_catch: bool = True) -> Callable[[type], type]:
    """Make an engine of the decorated class: an engine, or what its databases and such are."""

    def register(part: type) -> type:
        attributes: dict[str, Any] = {"caught_by": caught_by, "lives_catch": lives_catch}
        for place in ("database_type", "namespace_type", "snapshot_type"):
            if issubclass(part, getattr(WrappedEngine, place)):
                attributes[place] = part
        base = part if issubclass(part, PlantedEngine) else PlantedEngine
        PLANTED.append(type(part.__name__, (base,), attributes))
        return part

    return register

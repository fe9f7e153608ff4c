"""The memory engine of kstore, whose rows exist as long as the engine object."""

from __future__ import annotations

from kstore_core.hookspecs import EngineRegistrar, hookimpl
from kstore_memory.engine import MemoryEngine

__all__ = ["MemoryEngine", "kstore_register_engines"]


@hookimpl
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Register :class:`MemoryEngine`."""
    registrar.add(MemoryEngine)

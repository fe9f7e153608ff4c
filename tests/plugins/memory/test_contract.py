"""The memory engine, held to the contract."""

from __future__ import annotations

from kstore_core.testing import EngineSuite, StoreSuite
from kstore_memory import MemoryEngine


class TestMemoryEngine(EngineSuite):
    def make_engine(self) -> MemoryEngine:
        return MemoryEngine()


class TestStoresOnMemory(StoreSuite):
    def make_engine(self) -> MemoryEngine:
        return MemoryEngine()

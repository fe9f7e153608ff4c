"""Memory under KeyboardInterrupt."""

from __future__ import annotations

from kstore_core.testing import InterruptSuite
from kstore_memory import MemoryEngine


class TestMemory(InterruptSuite):
    def make_engine(self) -> MemoryEngine:
        return MemoryEngine()

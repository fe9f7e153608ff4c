"""The LMDB engine, held to the contract, in both formats."""

from __future__ import annotations

from kstore_core.testing import EngineSuite, StoreSuite
from kstore_lmdb import LMDBEngine


class TestLMDBEngine(EngineSuite):
    def make_engine(self) -> LMDBEngine:
        return LMDBEngine()


class TestLMDBEngineOfFormat1(EngineSuite):
    def make_engine(self) -> LMDBEngine:
        return LMDBEngine({"format_version": "1.0"})


class TestStoresOnLMDB(StoreSuite):
    def make_engine(self) -> LMDBEngine:
        return LMDBEngine()

"""LMDB as a storage engine of kstore: an environment per store, a named database per namespace."""

from __future__ import annotations

from kstore_core.hookspecs import EngineRegistrar, hookimpl
from kstore_lmdb.engine import LMDBEngine
from kstore_lmdb.options import LMDBOptions

__all__ = ["LMDBEngine", "LMDBOptions", "kstore_register_engines"]


@hookimpl
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Add :class:`LMDBEngine`."""
    registrar.add(LMDBEngine)

"""The LMDB engine of kstore. A store is an LMDB environment. A namespace is a named database."""

from __future__ import annotations

from kstore_core.hookspecs import EngineRegistrar, hookimpl
from kstore_lmdb.engine import LMDBEngine
from kstore_lmdb.options import LMDBOptions

__all__ = ["LMDBEngine", "LMDBOptions", "kstore_register_engines"]


@hookimpl
def kstore_register_engines(registrar: EngineRegistrar) -> None:
    """Register :class:`LMDBEngine`."""
    registrar.add(LMDBEngine)

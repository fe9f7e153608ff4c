"""Make batches of the binding from rows."""

from __future__ import annotations

from collections.abc import Iterable

from rocksdict import WriteBatch

from kstore_core.engine import Rows
from kstore_rocksdb.namespace import FamilyNamespace

__all__ = ["native_batch"]


def native_batch(namespaces: Iterable[FamilyNamespace], batch: Iterable[Rows]) -> WriteBatch:
    """Return one atomic batch for several column families.

    A :class:`WriteBatch` can be written only once.
    """
    native = WriteBatch(raw_mode=True)
    for namespace, rows in zip(namespaces, batch, strict=True):
        _add_rows(native, namespace, rows)
    return native


def _add_rows(native: WriteBatch, namespace: FamilyNamespace, rows: Rows) -> None:
    native.set_default_column_family(namespace.handle)
    for lo, hi in rows.deleted_ranges:
        if type(lo) is not bytes:  # an empty namespace compares it with nothing, so it would pass
            raise TypeError(f"a deleted range begins with bytes, not {type(lo).__name__}")
        if hi is None:
            last = namespace.first(lo, reverse=True)
            hi = lo if last is None else last[0] + b"\0"
        if lo < hi:  # an inverted range gets into RocksDB's log, and each later open fails on it
            native.delete_range(lo, hi, namespace.handle)
    put, delete = native.put, native.delete
    for key, value in zip(rows.keys, rows.values, strict=True):
        if value is None:
            delete(key)
        else:
            put(key, value)

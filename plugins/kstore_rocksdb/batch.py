"""Create write batches of the Python library ``rocksdict``."""

from __future__ import annotations

from collections.abc import Iterable

from rocksdict import WriteBatch

from kstore_core.engine import Rows
from kstore_rocksdb.namespace import FamilyNamespace

__all__ = ["native_batch"]


def native_batch(namespaces: Iterable[FamilyNamespace], batch: Iterable[Rows]) -> WriteBatch:
    """Return one atomic write batch with the changes of several column families.

    Each element of ``batch`` has the changes of the namespace at the same index. The result can be
    written only once.
    """
    native = WriteBatch(raw_mode=True)
    for namespace, rows in zip(namespaces, batch, strict=True):
        _add_rows(native, namespace, rows)
    return native


def _add_rows(native: WriteBatch, namespace: FamilyNamespace, rows: Rows) -> None:
    native.set_default_column_family(namespace.handle)
    for lo, hi in rows.deleted_ranges:
        if type(lo) is not bytes:  # in an empty namespace, nothing else would check the type
            raise TypeError(f"the start of a deleted range must be bytes, not {type(lo).__name__}")
        if hi is None:
            last = namespace.first(lo, reverse=True)
            hi = lo if last is None else last[0] + b"\0"
        if lo < hi:  # RocksDB would log an inverted range, and each later open would fail
            native.delete_range(lo, hi, namespace.handle)
    put, delete = native.put, native.delete
    for key, value in zip(rows.keys, rows.values, strict=True):
        if value is None:
            delete(key)
        else:
            put(key, value)

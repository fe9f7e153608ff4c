"""What a batch does to an environment, within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import lt
from typing import Any

import lmdb

from kstore_core.engine import Rows
from kstore_core.errors import KeyTooLongError
from kstore_lmdb.moment import EMPTY

__all__ = ["apply", "ascending", "check"]

_PIECE_ROWS = 10_000
_BYTES = {bytes}
_VALUES = {bytes, type(None)}


def check(batch: Mapping[str, Rows], max_key_bytes: int) -> None:
    """Refuse a batch that LMDB could not take whole, before any of it is written.

    Raises
    ------
    TypeError, ValueError
        A key or value is not bytes, or the lists differ in length.
    KeyTooLongError
    """
    for name, rows in batch.items():
        keys, values = rows.keys, rows.values
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values for {name!r}")
        ends = [end for ends in rows.deleted_ranges for end in ends[: 1 + (ends[1] is not None)]]
        kinds = {*map(type, keys), *map(type, ends)} - _BYTES | set(map(type, values)) - _VALUES
        if kinds:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(f"rows of {name!r} are bytes, not {found}")
        longest = max(map(len, keys), default=0)
        if longest > max_key_bytes:
            raise KeyTooLongError(
                f"a key of {longest} bytes for {name!r}: this environment holds keys of at most "
                f"{max_key_bytes} bytes; nothing of the batch was written. Use shorter keys, the "
                "option format_version='1.0' (1978 bytes) for a new store, or another engine"
            )


def apply(
    transaction: lmdb.Transaction[bytes], handles: Mapping[str, Any], batch: Mapping[str, Rows]
) -> None:
    """Write a batch that has been checked."""
    for name, rows in batch.items():
        handle = handles[name]
        for lo, hi in rows.deleted_ranges:
            _delete_range(transaction, handle, lo, hi)
            if not lo and hi != b"":
                transaction.delete(name.encode(), b"", handles[EMPTY])
        keys, values = rows.keys, rows.values
        if keys and not keys[0]:
            if values[0] is None:
                transaction.delete(name.encode(), b"", handles[EMPTY])
            else:
                transaction.put(name.encode(), values[0], db=handles[EMPTY])
            keys, values = keys[1:], values[1:]
        if None in values:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    transaction.delete(key, b"", handle)
            rows_left = [row for row in zip(keys, values, strict=True) if row[1] is not None]
            keys = [key for key, _ in rows_left]
            values = [value for _, value in rows_left]
        if keys:
            _put(transaction.cursor(handle), keys, values)


def _put(cursor: lmdb.Cursor[bytes], keys: Sequence[bytes], values: Sequence[Any]) -> None:
    """Put sorted rows: appended where they are all new, which neither searches nor splits."""
    append = not cursor.last() or cursor.key() < keys[0]
    consumed, added = cursor.putmulti(zip(keys, values, strict=True), append=append)
    if consumed != added:
        raise ValueError("the keys of a batch are sorted and do not repeat")


def _delete_range(
    transaction: lmdb.Transaction[bytes], handle: Any, lo: bytes, hi: bytes | None
) -> None:
    if not lo and hi is None:
        transaction.drop(handle, delete=False)
        return
    cursor = transaction.cursor(handle)
    found = cursor.set_range(lo)
    while found and (hi is None or cursor.key() < hi):
        cursor.delete()
        found = bool(cursor.key())


def ascending(chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> Iterator[Rows]:
    """The rows of a bulk load in pieces of a transaction each, checked for their order.

    Raises
    ------
    TypeError
        A value is None.
    ValueError
        Keys are not strictly ascending, or keys and values differ in number.
    """
    last: bytes | None = None
    piece = Rows()
    for keys, values in chunks:
        if len(keys) != len(values):
            raise ValueError(f"a chunk of {len(keys)} keys has {len(values)} values")
        if None in values:
            raise TypeError("the values of a bulk load are bytes, not None")
        if not keys:
            continue
        if (last is not None and keys[0] <= last) or not all(map(lt, keys, islice(keys, 1, None))):
            raise ValueError("the keys of a bulk load must be strictly ascending")
        last = keys[-1]
        for start in range(0, len(keys), _PIECE_ROWS):
            piece.keys += keys[start : start + _PIECE_ROWS]
            piece.values += values[start : start + _PIECE_ROWS]
            if len(piece.keys) >= _PIECE_ROWS:
                yield piece
                piece = Rows()
    if piece:
        yield piece

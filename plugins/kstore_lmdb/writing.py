"""Write batches of rows in a write transaction of LMDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import lt
from typing import Any

import lmdb

from kstore_core.engine import Rows
from kstore_core.errors import KeyTooLongError
from kstore_lmdb.transaction import EMPTY

__all__ = ["apply", "ascending"]

_LOAD_ROWS = 10_000
_PIECE_ROWS = 512
"""The number of rows that are checked and written together, and fit in the cache of the CPU."""

_BYTES = {bytes}
_NONE = {type(None)}


def apply(
    transaction: lmdb.Transaction[bytes],
    handles: Mapping[str, Any],
    max_key_bytes: int,
    batch: Mapping[str, Rows],
) -> None:
    """Write a batch in a transaction. After an error, the caller must abort the transaction.

    Raises
    ------
    TypeError, ValueError
        A key or value is not bytes, the lists differ in length, or the keys are not strictly
        ascending.
    KeyTooLongError
        A key has more than ``max_key_bytes`` bytes.
    """
    for name, rows in batch.items():
        keys, values = rows.keys, rows.values
        if len(keys) != len(values):
            raise ValueError(
                f"the batch has {len(keys)} keys but {len(values)} values for the namespace "
                f"{name!r}"
            )
        empty = EmptyRow(transaction, handles[EMPTY], name)
        for lo, hi in rows.deleted_ranges:
            _check_kinds(name, {type(lo)} | {type(hi)} - _NONE)
            _delete_range(transaction, handles[name], lo, hi)
            if not lo and hi != b"":
                empty.write(None)
        cursor: lmdb.Cursor[bytes] | None = None
        for start in range(0, len(keys), _PIECE_ROWS):
            some = keys[start : start + _PIECE_ROWS]
            theirs: list[Any] = values[start : start + _PIECE_ROWS]
            kinds = set(map(type, theirs))
            _check_kinds(name, {*map(type, some), *kinds} - _NONE)
            _check_lengths(name, max(map(len, some)), max_key_bytes)
            if not some[0]:
                empty.write(theirs[0])
                del some[0], theirs[0]
            if kinds & _NONE:
                some, theirs = _delete(transaction, handles[name], some, theirs)
            if not some:
                continue
            if cursor is None:
                cursor = transaction.cursor(handles[name])
                # If all keys follow the last key, append the rows. LMDB then neither searches
                # nor splits pages.
                append = not cursor.last() or cursor.key() < some[0]
            consumed, added = cursor.putmulti(zip(some, theirs, strict=True), append=append)
            if consumed != added:
                raise ValueError(
                    f"the keys for the namespace {name!r} must be strictly ascending, but are not"
                )


class EmptyRow:
    """The row with the empty key in a namespace."""

    def __init__(self, transaction: lmdb.Transaction[bytes], handle: Any, name: str) -> None:
        self._transaction = transaction
        self._handle = handle
        self._name = name.encode()

    def write(self, value: bytes | None) -> None:
        """Set the value of the row, or delete the row if ``value`` is None."""
        if value is None:
            self._transaction.delete(self._name, b"", self._handle)
        else:
            self._transaction.put(self._name, value, db=self._handle)


def _check_kinds(name: str, kinds: set[type]) -> None:
    if kinds - _BYTES:
        found = ", ".join(sorted(kind.__name__ for kind in kinds - _BYTES))
        raise TypeError(f"rows of the namespace {name!r} must be bytes, not {found}")


def _check_lengths(name: str, longest: int, max_key_bytes: int) -> None:
    if longest > max_key_bytes:
        raise KeyTooLongError(
            f"a key for the namespace {name!r} has {longest} bytes, but this LMDB environment "
            f"allows at most {max_key_bytes} bytes. Nothing of the batch was written. Use shorter "
            "keys, another engine, or a new store with the option format_version='1.0', which "
            "allows 1978 bytes"
        )


def _delete(
    transaction: lmdb.Transaction[bytes], handle: Any, keys: list[bytes], values: list[Any]
) -> tuple[list[bytes], list[Any]]:
    """Delete the keys whose value is None. Return the keys and values of the other rows."""
    delete = transaction.delete
    others = []
    for row in zip(keys, values, strict=True):
        if row[1] is None:
            delete(row[0], b"", handle)
        else:
            others.append(row)
    return [key for key, _ in others], [value for _, value in others]


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
    """Check the rows of a bulk load, and yield them in pieces for one transaction each.

    Raises
    ------
    TypeError
        A value is None.
    ValueError
        The keys are not strictly ascending, or a chunk has more or fewer values than keys.
    """
    last: bytes | None = None
    piece = Rows()
    for keys, values in chunks:
        if len(keys) != len(values):
            raise ValueError(f"a chunk has {len(keys)} keys but {len(values)} values")
        if None in values:
            raise TypeError("the values of a bulk load must be bytes, not None")
        if not keys:
            continue
        if (last is not None and keys[0] <= last) or not all(map(lt, keys, islice(keys, 1, None))):
            raise ValueError("the keys of a bulk load must be strictly ascending, but are not")
        last = keys[-1]
        for start in range(0, len(keys), _LOAD_ROWS):
            piece.keys += keys[start : start + _LOAD_ROWS]
            piece.values += values[start : start + _LOAD_ROWS]
            if len(piece.keys) >= _LOAD_ROWS:
                yield piece
                piece = Rows()
    if piece:
        yield piece

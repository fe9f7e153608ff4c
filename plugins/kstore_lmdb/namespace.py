"""Namespaces. A namespace is a named database, read in the current transaction of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import lmdb

from kstore_core.engine import Chunk, Namespace
from kstore_core.engine.ordered import take
from kstore_lmdb.errors import Reason, translating
from kstore_lmdb.forks import DATABASES
from kstore_lmdb.scan import LARGER_CHUNK, Scan
from kstore_lmdb.transaction import ReadTransaction

__all__ = ["LMDBNamespace", "Source"]

Lookup = Callable[[bytes], bytes | None]


class Source(Protocol):
    """The database or snapshot of a namespace. It has the read transaction."""

    path: Path

    @property
    def guard(self) -> AbstractContextManager[Any]:
        """The lock that is held while a namespace is bound or the transaction is replaced."""

    def transaction(self) -> ReadTransaction:
        """Return the current read transaction. Raise if the source has ended."""


def rebindable(first: Callable[..., Any]) -> tuple[Lookup, Callable[..., None]]:
    """Return a lookup function, and a function that binds the lookup to a transaction.

    A new binding also affects callers that already have the lookup function. So a lookup reads the
    last commit, and raises after a close, although no lookup spends time on a check.
    """
    call, handle = first, None

    def lookup(key: bytes) -> Any:
        return call(key, None, handle)

    def bind(other: Callable[..., Any] = first, its: Any = None) -> None:
        nonlocal call, handle
        if its is not None:  # first: a lookup in between uses the earlier transaction
            handle = its
        call = other

    return lookup, bind


class LMDBNamespace(Namespace):
    """A named database, read in the transactions of its source."""

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self._source = source
        self._guard = translating(f"read from {name!r}", source.path)
        self._ended: Reason | None = None
        self._lookup, self._bind = rebindable(self._look_up_first)

    @property
    def fast_get(self) -> Lookup:
        """The binding's own lookup in the newest transaction."""
        return self._lookup

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""
        try:
            return self._lookup(key)
        except Exception:  # noqa: BLE001
            return self._look_up(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in their order."""
        transaction = self._transaction()
        try:
            handle = transaction.handles[self.name]
            return list(map(transaction.read().get, keys, repeat(None), repeat(handle)))
        except lmdb.Error:
            return list(map(self.get, keys))

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Chunks of the rows with ``lo <= key < hi``, as of this call."""
        return Scan(self.name, self._transaction(), lo, hi, reverse, self._guard)

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, and a scan of the rest, or None."""
        if lo is None or hi is None:
            return super().start(lo, hi, reverse=reverse)
        begun = self.starts([(lo, hi)], reverse=reverse)
        return super().start(lo, hi, reverse=reverse) if begun is None else begun[0]

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]] | None:
        """Return the start of each range. None for reverse scans and ranges with an open end."""
        if reverse:
            return None
        begun: list[tuple[Chunk | None, Iterator[Chunk] | None]] = []
        transaction = self._transaction()
        try:
            with transaction.lock:
                cursor = transaction.read().cursor(transaction.handles[self.name])
                for lo, hi in ranges:
                    if not lo:
                        return None
                    if not cursor.set_range(lo):
                        begun.append((None, None))
                        continue
                    keys, values, more = take(cursor.iternext(), LARGER_CHUNK, hi)
                    rest = None
                    if more:
                        rest = Scan(
                            self.name, transaction, keys[-1] + b"\0", hi, reverse, self._guard
                        )
                    begun.append(((keys, values) if keys else None, rest))
        except Exception:  # noqa: BLE001
            return None  # a scan fails too, and translates the error
        return begun

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row of a scan, or None if it is empty."""
        return self.scan(lo, hi, reverse=reverse).first()

    def approximate_count(self) -> int:
        """Return the exact number of rows."""
        transaction = self._transaction()
        with transaction.lock, self._guard:
            rows = transaction.read().stat(transaction.handles[self.name])["entries"]
            return rows + (transaction.empty_row(self.name) is not None)

    def renew(self) -> None:
        """Make the next lookup use the current transaction of the source."""
        self._bind()

    def end(self, reason: Reason) -> None:
        """End the namespace; every later use raises ``reason``."""
        self._ended = reason
        self._bind()

    def _transaction(self) -> ReadTransaction:
        if self._ended is not None:
            raise self._ended()
        return self._source.transaction()

    def _look_up_first(self, key: bytes, *_: object) -> bytes | None:
        """Bind the lookup to the current transaction, and look ``key`` up."""
        with self._source.guard:
            transaction = self._transaction()
            get, handle = transaction.read().get, transaction.handles[self.name]
            self._bind(get, handle)
        return get(key, None, handle)

    def _look_up(self, key: bytes) -> bytes | None:
        """Look ``key`` up in the slow way, after the fast lookup has raised an error."""
        DATABASES.notice_fork()
        if type(key) is not bytes:
            raise TypeError(f"a key must be bytes, not {type(key).__name__}")
        transaction = self._transaction()
        self.renew()
        with transaction.lock, self._guard:
            if not key:
                return transaction.empty_row(self.name)
            return transaction.read().get(key, None, transaction.handles[self.name])

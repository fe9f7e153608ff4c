"""Namespaces of an LMDB database or snapshot. Each namespace is a named database of LMDB."""

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
    """A database or a snapshot, whose namespaces all read in one read transaction."""

    path: Path

    @property
    def guard(self) -> AbstractContextManager[Any]:
        """The lock that a thread must hold while it begins or replaces a read transaction."""

    def transaction(self) -> ReadTransaction:
        """Return the current read transaction. Raise an error if the source was closed."""


def rebindable(first: Callable[..., Any]) -> tuple[Lookup, Callable[..., None]]:
    """Return a lookup function, and a function ``bind`` that changes the lookup.

    ``bind(get, handle)`` makes the lookup call ``get(key, None, handle)``. ``bind()`` makes the
    lookup call ``first`` again. Callers may keep the lookup function, because ``bind`` changes
    this function object and returns no new one. So a lookup saves the time of a check whether the
    transaction is still current.
    """
    call, handle = first, None

    def lookup(key: bytes) -> Any:
        return call(key, None, handle)

    def bind(other: Callable[..., Any] = first, its: Any = None) -> None:
        nonlocal call, handle
        if its is not None:  # set first, because another thread may look up a key in between
            handle = its
        call = other

    return lookup, bind


class LMDBNamespace(Namespace):
    """A namespace of a source. The source is a database or snapshot with a read transaction."""

    def __init__(self, name: str, source: Source) -> None:
        self.name = name
        self._source = source
        self._guard = translating(f"read from {name!r}", source.path)
        self._ended: Reason | None = None
        self._lookup, self._bind = rebindable(self._look_up_first)

    @property
    def fast_get(self) -> Lookup:
        """The lookup function of the library ``lmdb``, which reads in the current transaction."""
        return self._lookup

    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None if the key is missing."""
        try:
            return self._lookup(key)
        except Exception:  # noqa: BLE001
            return self._look_up(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key."""
        transaction = self._transaction()
        try:
            handle = transaction.handles[self.name]
            return list(map(transaction.read().get, keys, repeat(None), repeat(handle)))
        except lmdb.Error:
            return list(map(self.get, keys))

    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Scan:
        """Return an iterator of chunks of the rows with ``lo <= key < hi``, as of this call."""
        return Scan(self.name, self._transaction(), lo, hi, reverse, self._guard)

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, and an iterator of the remaining chunks.

        The chunk is None if the scan is empty. The iterator is None if no rows remain.
        """
        if lo is None or hi is None:
            return super().start(lo, hi, reverse=reverse)
        begun = self.starts([(lo, hi)], reverse=reverse)
        return super().start(lo, hi, reverse=reverse) if begun is None else begun[0]

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]] | None:
        """Return the result of :meth:`start` for each range ``(lo, hi)``.

        Return None if ``reverse`` is True, if a range begins with the empty key, or on an error.
        """
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
            return None  # the caller then begins a scan, which raises the translated error
        return begun

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that a scan would yield, or None if there is no row."""
        return self.scan(lo, hi, reverse=reverse).first()

    def approximate_count(self) -> int:
        """Return the number of rows, which is exact in LMDB."""
        transaction = self._transaction()
        with transaction.lock, self._guard:
            rows = transaction.read().stat(transaction.handles[self.name])["entries"]
            return rows + (transaction.empty_row(self.name) is not None)

    def renew(self) -> None:
        """Make the next lookup use the current transaction of the source."""
        self._bind()

    def end(self, reason: Reason) -> None:
        """End the namespace. Every later use raises the error that ``reason`` returns."""
        self._ended = reason
        self._bind()

    def _transaction(self) -> ReadTransaction:
        if self._ended is not None:
            raise self._ended()
        return self._source.transaction()

    def _look_up_first(self, key: bytes, *_: object) -> bytes | None:
        """Return the value of ``key``, and bind later lookups to the current transaction."""
        with self._source.guard:
            transaction = self._transaction()
            get, handle = transaction.read().get, transaction.handles[self.name]
            self._bind(get, handle)
        return get(key, None, handle)

    def _look_up(self, key: bytes) -> bytes | None:
        """Return the value of ``key`` after the fast lookup has raised an error.

        This lookup also works for the empty key, and raises errors with clear messages.
        """
        DATABASES.notice_fork()
        if type(key) is not bytes:
            raise TypeError(f"a key must be bytes, not {type(key).__name__}")
        transaction = self._transaction()
        self.renew()
        with transaction.lock, self._guard:
            if not key:
                return transaction.empty_row(self.name)
            return transaction.read().get(key, None, transaction.handles[self.name])

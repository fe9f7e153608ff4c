"""The databases of an engine: namespaces, batches, scans and snapshots.

A :class:`Database` has :class:`Namespace` objects, ordered maps of bytes (RocksDB: column families;
LMDB: named databases), and writes to several of them in one atomic batch. Order is unsigned
lexicographic everywhere. Ranges are half-open, ``lo <= key < hi``; None leaves an end open.

These rules hold for all handles. Several threads may use a handle at once, and a scan or a snapshot
sees each batch whole or not at all. In a fork of the process every use but ``close`` raises
ForkedHandleError. Messages name the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

__all__ = ["Chunk", "Database", "Namespace", "Rows", "Snapshot"]

Chunk = tuple[list[bytes], list[bytes]]
"""Keys and values, parallel and in scan order; never empty."""


LARGE_ROWS = 30_000
"""The least number of rows of a large batch."""


@dataclass(slots=True)
class Rows:
    """The changes of one batch to one namespace: ranges are deleted first, then rows are written.

    Attributes
    ----------
    keys, values : list
        Parallel and sorted by key without repeats; a value of None deletes its key.
    deleted_ranges : list of (lo, hi)
        Half-open; ``hi`` None reaches to the end.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    deleted_ranges: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.keys or self.deleted_ranges)

    @property
    def is_large(self) -> bool:
        """True if these are enough rows for :meth:`Database.write_large`."""
        return len(self.keys) >= LARGE_ROWS and not self.deleted_ranges


class Namespace(ABC):
    """An ordered map of bytes inside a database."""

    name: str

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None."""

    @property
    def fast_get(self) -> Callable[[bytes], bytes | None]:
        """The shortest way to :meth:`get`, such as the binding's own bound method.

        It may raise any exception; the caller then calls :meth:`get`, which raises a clear one. It
        must not be called after a close or a fork.
        """
        return self.get

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys``, in their order; fastest when they are sorted."""

    @abstractmethod
    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        """Chunks of the rows with ``lo <= key < hi``, as of this call.

        A scan reads all rows or raises: it never ends early on a fault. The iterator may have a
        ``close()``; collecting it as garbage releases its resources too. Chunks start small and
        grow, so that a read of one row does not cost as much as one of a thousand.
        """

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, or None if it is empty, and a scan of the rest.

        The second is None if nothing is left, so that a short read need not make an iterator.
        """
        chunks = self.scan(lo, hi, reverse=reverse)
        chunk = next(chunks, None)
        return chunk, None if chunk is None else chunks

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]] | None:
        """Return the :meth:`start` of each range ``(lo, hi)``, all as of this call.

        None, the default, if reading them together saves nothing, or they would not be as of one
        point in time.
        """
        return None

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row of a scan, or None if it is empty."""
        for keys, values in self.scan(lo, hi, reverse=reverse):
            return keys[0], values[0]
        return None

    @abstractmethod
    def approximate_count(self) -> int:
        """Return the approximate number of rows."""


class Snapshot(ABC):
    """A snapshot of a whole database, all its namespaces together."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """The namespace in the snapshot; raises KeyError if the snapshot does not have it."""

    @abstractmethod
    def close(self) -> None:
        """Release the snapshot. A second close does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Database(ABC):
    """One store's rows: namespaces that are written to together."""

    path: Path

    @abstractmethod
    def namespaces(self) -> list[str]:
        """Return the names that exist, ``"default"`` among them, in no particular order."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """Return the namespace of this name; a missing one is made.

        Raises
        ------
        KeyError
            The namespace is missing and the database is read-only.
        """

    @abstractmethod
    def drop_namespace(self, name: str) -> None:
        """Remove a namespace and its rows; earlier snapshots still contain them.

        An open scan of it continues or raises StoreClosedError. A handle of it finds no rows or
        raises StoreClosedError.

        Raises
        ------
        KeyError
            No namespace has this name.
        UnsupportedError
            The namespace is ``"default"``, or the database is read-only.
        """

    @abstractmethod
    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to several namespaces at once, all of it or nothing, at the level of durability.

        The caller may change its lists afterwards.

        Raises
        ------
        KeyError
            A namespace does not exist.
        TypeError, ValueError
            A key or value is not bytes, or the lists differ in length.
        KeyTooLongError
            A key exceeds ``max_key_bytes``.
        UnsupportedError
            The database is read-only.
        StorageFullError
            The disk is full. After every exception, nothing was written.
        """

    def write_large(self, namespace: str, rows: Rows) -> bool:
        """Write many rows to one namespace, if the engine has a faster way than :meth:`write`.

        The rows are written all or not at all, and survive a power cut whatever the level of
        durability. By default the engine has no faster way. Core calls this in a spill, whose rows
        may be written before their offsets, if they are many (:attr:`Rows.is_large`).

        Parameters
        ----------
        rows : Rows
            Without deleted ranges.

        Returns
        -------
        bool
            False if the engine has no faster way; nothing was written then.

        Raises
        ------
        KeyError, TypeError, ValueError, KeyTooLongError, UnsupportedError, StorageFullError
            As for :meth:`write`.
        """
        return False

    @abstractmethod
    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        """Bulk load ascending rows, and return their number.

        The load is not atomic: it fills a store whose offsets are committed afterwards. It replaces
        existing rows of the same keys.

        Raises
        ------
        ValueError
            The keys are not strictly ascending.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return a snapshot of all namespaces."""

    @abstractmethod
    def checkpoint(self, target: Path) -> None:
        """A consistent copy in ``target``, which must not exist yet, openable as a database.

        Raises
        ------
        FileExistsError
            ``target`` exists.
        UnsupportedError
            The engine has no checkpoints (``capabilities.checkpoint``).
        """

    @abstractmethod
    def sync(self) -> None:
        """Make all writes so far durable against a power cut."""

    @abstractmethod
    def close(self) -> None:
        """Close the files. Later uses, also of open scans and snapshots, raise StoreClosedError.

        A second close does nothing.
        """

"""The interface of an engine's databases, namespaces and snapshots.

A :class:`Database` contains :class:`Namespace` objects, and can write to several of them in one
atomic batch. A namespace is an ordered map of bytes, for example a column family in RocksDB or a
named database in LMDB. Keys are sorted as unsigned bytes. A range contains the keys with
``lo <= key < hi``. If ``lo`` or ``hi`` is None, the range has no limit at this end.

The following rules apply to every database, namespace, scan and snapshot:

* Several threads may use the same object at the same time.
* A scan or snapshot contains either all changes of a batch or none of them.
* In a forked process every method except ``close`` raises ForkedHandleError.
* The message of an exception must contain the name of the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

__all__ = ["Chunk", "Database", "Namespace", "Rows", "Snapshot"]

Chunk = tuple[list[bytes], list[bytes]]
"""A list of keys in the order of the scan, and a list of their values. No chunk is empty."""


LARGE_ROWS = 30_000
"""The minimum number of rows in a call of :meth:`Database.write_large`."""


@dataclass(slots=True)
class Rows:
    """The changes that a batch makes to a namespace.

    The engine must first delete the ranges and then write the rows.

    Attributes
    ----------
    keys : list of bytes
        The keys of the rows, sorted and without duplicates.
    values : list of bytes or None
        The value of each key, in the order of ``keys``. A value of None deletes the key.
    deleted_ranges : list of (lo, hi)
        The ranges to delete, each with ``lo <= key < hi``, or with ``lo <= key`` if ``hi`` is None.
    """

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    deleted_ranges: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.keys or self.deleted_ranges)

    @property
    def is_large(self) -> bool:
        """True if :meth:`Database.write_large` may write these changes.

        The changes must have at least 30,000 rows and no deleted ranges.
        """
        return len(self.keys) >= LARGE_ROWS and not self.deleted_ranges


class Namespace(ABC):
    """An ordered map of bytes in a database."""

    name: str

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value of ``key``, or None if the key is missing."""

    @property
    def fast_get(self) -> Callable[[bytes], bytes | None]:
        """The fastest function that returns the result of :meth:`get`; by default :meth:`get`.

        An engine may return a method of its library, which may raise any exception. After an
        exception the core calls :meth:`get`, which must raise an exception with a clear message.
        The core does not call the function after a close or a fork.
        """
        return self.get

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of ``keys`` in the order of ``keys``; None for a missing key.

        The keys may have any order, but the lookup should be fastest if they are sorted.
        """

    @abstractmethod
    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        """Return an iterator of chunks of the rows with ``lo <= key < hi``.

        Writes after this call must not change the result. If a fault prevents a scan from returning
        all rows, the scan must raise an exception. The iterator may have a method ``close`` that
        releases its resources. The garbage collection of the iterator must release the resources
        too. The first chunk should be small and later chunks larger, so that a read of one row is
        fast.
        """

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """Return the first chunk of a scan, and an iterator of the remaining chunks.

        The chunk is None if the scan is empty. The iterator is None if no rows remain. So a read of
        few rows need not create an iterator.
        """
        chunks = self.scan(lo, hi, reverse=reverse)
        chunk = next(chunks, None)
        return chunk, None if chunk is None else chunks

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]] | None:
        """Return the result of :meth:`start` for each range ``(lo, hi)``, read from one snapshot.

        Return None if a read of all ranges together is not faster, or if the engine cannot read
        them from one snapshot. The default implementation returns None.
        """
        return None

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """Return the first row that a scan would yield, or None if there is no row."""
        for keys, values in self.scan(lo, hi, reverse=reverse):
            return keys[0], values[0]
        return None

    @abstractmethod
    def approximate_count(self) -> int:
        """Return the approximate number of rows."""


class Snapshot(ABC):
    """A snapshot of all namespaces of a database."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """Return the namespace with this name as of the snapshot.

        Raises
        ------
        KeyError
            The database did not have this namespace at the time of the snapshot.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the snapshot. A second close does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Database(ABC):
    """The database of a store or segment. One batch can write to several of its namespaces."""

    path: Path

    @abstractmethod
    def namespaces(self) -> list[str]:
        """Return the names of all namespaces in any order. ``"default"`` is always included."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """Return the namespace with this name, and create the namespace if it is missing.

        Raises
        ------
        KeyError
            The namespace is missing and the database is read-only.
        """

    @abstractmethod
    def drop_namespace(self, name: str) -> None:
        """Remove a namespace and its rows. Existing snapshots still contain the rows.

        An open scan of the namespace may continue or raise StoreClosedError. An existing Namespace
        object may find no rows or raise StoreClosedError.

        Raises
        ------
        KeyError
            The database has no namespace with this name.
        UnsupportedError
            The namespace is ``"default"``, or the database is read-only.
        """

    @abstractmethod
    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write a batch of changes to one or more namespaces atomically.

        The batch must have the level of durability that the database was opened with. The caller
        may change the lists of the batch after this call. If this method raises an exception, it
        must not have written anything.

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
            The disk is full.
        """

    def write_large(self, namespace: str, rows: Rows) -> bool:
        """Write many rows to one namespace, if the engine has a faster way than :meth:`write`.

        The method must write all rows or none. At every level of durability, the rows must survive
        a power cut. The core calls this method for a large spill, which writes staged rows before
        their commit. By default the method returns False.

        Parameters
        ----------
        namespace : str
            The name of the namespace.
        rows : Rows
            The rows, whose :attr:`Rows.is_large` is True.

        Returns
        -------
        bool
            True if the rows were written. False if the engine has no faster way; nothing was
            written then.

        Raises
        ------
        KeyError, TypeError, ValueError, KeyTooLongError, UnsupportedError, StorageFullError
            The conditions are those of :meth:`write`.
        """
        return False

    @abstractmethod
    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        """Load rows in ascending order of their keys, and return their number.

        A loaded row replaces an existing row of the same key. The load need not be atomic, because
        the core commits the offsets of the rows only after the load.

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
        """Write a consistent copy of the database to the path ``target``.

        The engine must be able to open the copy as a database.

        Raises
        ------
        FileExistsError
            ``target`` exists already.
        UnsupportedError
            The engine cannot make checkpoints; ``capabilities.checkpoint`` is False.
        """

    @abstractmethod
    def sync(self) -> None:
        """Make all earlier writes survive a power cut."""

    @abstractmethod
    def close(self) -> None:
        """Close the database. A second close does nothing.

        Every later use of the database and of its namespaces, scans and snapshots must raise
        StoreClosedError.
        """

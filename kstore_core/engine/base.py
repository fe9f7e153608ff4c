"""The engine SPI: what a storage engine supplies, and nothing that core does once for all.

An :class:`Engine` opens :class:`Database` objects, one a store. A database holds :class:`Namespace`
objects, ordered maps of bytes (RocksDB: column families; LMDB: named databases), and writes to
several of them in one atomic batch. Order is unsigned lexicographic everywhere; internal ranges are
half-open, ``lo <= key < hi``, and ``None`` leaves an end open.

Staging, tables, versions, upgrades and offsets are core's. An engine never sees a header or a time.

These docstrings are the contract, and :mod:`kstore_core.testing` holds an engine to them. What is
true of all handles: they are used from several threads at once, where a scan or a snapshot has each
batch whole or not at all; in a fork of their process every use but ``close`` raises
ForkedHandleError; messages name the store.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from kstore_core.errors import SpecError, UnsupportedError

__all__ = [
    "DURABILITY_LEVELS",
    "Capabilities",
    "Chunk",
    "Database",
    "Durability",
    "Engine",
    "EngineOptions",
    "Namespace",
    "Rows",
    "Snapshot",
]

Durability = Literal["process", "power", "changelog"]
"""What a commit survives: SIGKILL, a power cut, or what Kafka's own stores survive."""

DURABILITY_LEVELS: tuple[Durability, ...] = get_args(Durability)

Chunk = tuple[list[bytes], list[bytes]]
"""Keys and their values, parallel, in scan order, never empty."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do, as data. What it cannot is refused when a store is built.

    Attributes
    ----------
    persistent : bool
        Rows survive the process.
    process_local : bool
        A database can be seen only by the process that opened it, so no other process, such as a
        Spark worker, can read it.
    max_key_bytes : int or None
        The longest key that the engine holds; None for no limit. A longer one is refused before it
        is staged.
    empty_keys : bool
        The empty key can be stored. Where it cannot, a write of it is refused before it is staged.
    durability : tuple of Durability
        The levels that differ here; any other is treated as ``"process"``.
    checkpoint : bool
        :meth:`Database.checkpoint` makes a consistent copy of a live database.
    bulk_load : bool
        :meth:`Database.load` is faster than writing the same rows in batches.
    children : bool
        A store can have databases of its own beside each other, one a segment; see
        :meth:`Engine.open_child`. Where it cannot, segments share a database under key prefixes.
    """

    persistent: bool
    process_local: bool
    max_key_bytes: int | None = None
    empty_keys: bool = True
    durability: tuple[Durability, ...] = ("process",)
    checkpoint: bool = True
    bulk_load: bool = False
    children: bool = False


@dataclass(frozen=True)
class EngineOptions:
    """Base of an engine's options: a frozen dataclass whose every field has a default."""

    @classmethod
    def parse(cls, given: Mapping[str, Any] | EngineOptions | None) -> Self:
        """Options from a mapping, refusing a name that the engine does not know.

        Raises
        ------
        SpecError
            An unknown name (the text gives the nearest one), a value of another type, or the
            options of another engine.
        """
        if given is None:
            return cls()
        if isinstance(given, EngineOptions):
            if not isinstance(given, cls):
                raise SpecError(f"{type(given).__name__} given where {cls.__name__} is wanted")
            return given
        if not isinstance(given, Mapping):
            raise SpecError(f"options are a mapping or a {cls.__name__}, not {given!r}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name, value in given.items():
            if not isinstance(name, str):
                raise SpecError(f"the name of an option of {cls.__name__} is a str, not {name!r}")
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                raise SpecError(f"{cls.__name__} has no option {name!r}; {hint}")
            default = known[name].default
            if default is not dataclasses.MISSING and default is not None:
                wanted = type(default)
                if type(value) is not wanted:
                    raise SpecError(
                        f"option {name!r} takes {wanted.__name__}, not {type(value).__name__}"
                    )
        return cls(**given)


@dataclass(slots=True)
class Rows:
    """What one batch does to one namespace: ranges are deleted first, then rows are written.

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


class Namespace(ABC):
    """An ordered map of bytes inside a database."""

    name: str

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None."""

    @property
    def fast_get(self) -> Callable[[bytes], bytes | None]:
        """The shortest way to :meth:`get`, such as the binding's own bound method.

        It may raise anything, and is not called after a close or a fork; whoever meets an error
        calls :meth:`get`, which explains it.
        """
        return self.get

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order; fastest when they are sorted."""

    @abstractmethod
    def scan(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Chunk]:
        """Chunks of the rows with ``lo <= key < hi``, as of this call, whatever is written later.

        A scan reads everything or raises: it never ends early on a fault. The iterator may offer
        ``close()``; dropping it frees what it holds. Chunks start small and grow, so that a reader
        who wants one row does not pay for a thousand.
        """

    def start(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[Chunk | None, Iterator[Chunk] | None]:
        """The first chunk of a scan, or None where it is empty, and a scan of what follows it.

        None for that where nothing follows, so that a short read need not make an iterator.
        """
        chunks = self.scan(lo, hi, reverse=reverse)
        chunk = next(chunks, None)
        return chunk, None if chunk is None else chunks

    def starts(
        self, ranges: Sequence[tuple[bytes, bytes]], *, reverse: bool = False
    ) -> list[tuple[Chunk | None, Iterator[Chunk] | None]] | None:
        """The :meth:`start` of each range ``(lo, hi)``, all as of one moment, this call's.

        None, as here, where nothing is saved by taking them together, or they are of several
        moments.
        """
        return None

    def first(
        self, lo: bytes | None = None, hi: bytes | None = None, *, reverse: bool = False
    ) -> tuple[bytes, bytes] | None:
        """The first row of a scan, or None where it is empty."""
        for keys, values in self.scan(lo, hi, reverse=reverse):
            return keys[0], values[0]
        return None

    @abstractmethod
    def approximate_count(self) -> int:
        """How many rows there are, about."""


class Snapshot(ABC):
    """One moment of a whole database, all its namespaces together."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """The namespace as it was; raises KeyError where there was none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the moment. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Database(ABC):
    """One store's rows: namespaces that are written to together."""

    path: Path

    @abstractmethod
    def namespaces(self) -> list[str]:
        """The names that exist, ``"default"`` among them, in no particular order."""

    @abstractmethod
    def namespace(self, name: str) -> Namespace:
        """The namespace of this name, made where it is missing.

        Raises
        ------
        KeyError
            It is missing and the database is read-only.
        """

    @abstractmethod
    def drop_namespace(self, name: str) -> None:
        """Remove a namespace and its rows; snapshots of before keep them.

        A scan of it that is open goes on or raises StoreClosedError; a handle of it finds nothing
        or raises that.

        Raises
        ------
        KeyError
            There is none of this name.
        UnsupportedError
            It is ``"default"``, or the database is read-only.
        """

    @abstractmethod
    def write(self, batch: Mapping[str, Rows]) -> None:
        """Write to several namespaces at once: all of it or nothing, as durable as the level says.

        The rows are not kept: the caller may change its lists afterwards.

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
            There is no room. Whatever is raised, nothing was written.
        """

    @abstractmethod
    def load(
        self, namespace: str, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]
    ) -> int:
        """Bulk load ascending rows; returns how many.

        Not atomic: for filling a store whose offsets are committed afterwards. Existing rows of
        the same keys are replaced.

        Raises
        ------
        ValueError
            The keys are not strictly ascending.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """One moment of all namespaces."""

    @abstractmethod
    def checkpoint(self, target: Path) -> None:
        """A consistent copy in ``target``, which must not exist yet, openable as a database.

        Raises
        ------
        FileExistsError
            ``target`` exists.
        UnsupportedError
            The engine makes none (``capabilities.checkpoint``).
        """

    @abstractmethod
    def sync(self) -> None:
        """Make all that was written durable against a power cut."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files; scans and snapshots still open end with StoreClosedError.

        So does every use from now on. Closing twice is fine.
        """


class Engine(ABC):
    """A kind of storage. Instances hold options, and are cheap until they open something.

    Where rows persist an instance pickles, for other processes to open the same stores.

    Attributes
    ----------
    name : str
        What ``open_state(engine=…)`` takes and the directory records.
    capabilities : Capabilities
        Of the class with its default options; an instance may have its own, as its options say.
    """

    name: ClassVar[str]
    capabilities: Capabilities
    options_type: ClassVar[type[EngineOptions]] = EngineOptions

    def __init__(self, options: Mapping[str, Any] | EngineOptions | None = None) -> None:
        self.options = self.options_type.parse(options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options!r})"

    @abstractmethod
    def stores(self, root: Path) -> list[str]:
        """The names of the stores that this engine finds in the state directory ``root``, sorted.

        Looks at names only: opens, locks and writes nothing.
        """

    def recognises(self, root: Path) -> bool:
        """Return True if this engine wrote files that lie in the state directory ``root``.

        It is asked where nothing else tells the engine of a directory, and before another engine
        is opened there. An empty directory is nobody's. Left as it is: there is a store. An engine
        that recognises what is left of a damaged store keeps others from making an empty one
        beside it. Its stores should lie in ``<root>/<name>/``: where it cannot be loaded, what lies
        there is taken for its own.

        Looks at names only: opens, locks and writes nothing.
        """
        return bool(self.stores(root) or self.parents(root))

    @abstractmethod
    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Database:
        """Open a store's database in the state directory ``root``, making it where it is missing.

        Raises
        ------
        FileNotFoundError
            It is missing and ``read_only`` is set.
        EngineLockedError
            Another process or handle holds it for writing, and this is not read-only.
        CorruptionError
            Its files cannot be trusted.
        """

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """What is wrong with the files of a store that reading its rows may not show, or survive.

        Looks at the files as they are, opens them as no database and changes nothing. Left as it
        is: nothing, for reading shows all that there is to be seen.

        Parameters
        ----------
        child : str, optional
            The child whose files are meant.

        Raises
        ------
        EngineLockedError
            They cannot be looked at while somebody writes to them.
        """
        return iter(())

    # Children: the segments of a window or session store, where each is a database of its own. An
    # engine without ``capabilities.children`` leaves these as they are.

    def parents(self, root: Path) -> list[str]:
        """The names of the stores in ``root`` that have children or may get some, sorted.

        Looks at names only: opens, locks and writes nothing.
        """
        return []

    def make_parent(self, root: Path, store: str, *, durability: Durability = "process") -> bool:
        """Have :meth:`parents` name a store before its first child is made.

        So a directory knows of a store that was opened and never committed: it contains nothing,
        and no offset counts beside it. Left as it is, the store is known once it has a child.

        Returns
        -------
        bool
            Whether it was not named before.
        """
        return False

    def drop_parent(self, root: Path, store: str) -> bool:
        """Undo :meth:`make_parent`, unless the store has children; tells whether it was undone."""
        return False

    def children(self, root: Path, store: str) -> list[str]:
        """The names of a store's children, sorted; empty where there is no such store.

        Looks at names only, however many there are: opens, locks and writes nothing.
        """
        return []

    def open_child(
        self,
        root: Path,
        store: str,
        child: str,
        *,
        durability: Durability = "process",
        read_only: bool = False,
    ) -> Database:
        """Open one child of a store, making it where it is missing; raises what :meth:`open` does.

        Children are independent of one another and of the database of the same store's name.
        """
        raise self._childless()

    def drop_child(self, root: Path, store: str, child: str) -> None:
        """Remove a child, which must be closed, and all that it holds.

        Raises
        ------
        KeyError
            There is none of this name.
        """
        raise self._childless()

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        """Give a closed child another name.

        Raises
        ------
        KeyError
            There is none of this name.
        FileExistsError
            There is one of the new name.
        """
        raise self._childless()

    def _childless(self) -> UnsupportedError:
        return UnsupportedError(
            f"the engine {self.name!r} keeps the segments of a store in one database; it has no "
            "children (capabilities.children)"
        )

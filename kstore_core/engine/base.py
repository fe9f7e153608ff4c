"""The interface of a storage engine (SPI).

An :class:`Engine` opens a :class:`~kstore_core.engine.Database` for each store. An engine with the
capability ``children`` also opens a separate database for each segment. An engine only stores
bytes, and does not interpret headers or times. The core of kstore implements staging, tables,
versions, upgrades and offsets. The docstrings of these classes state what an engine must do, and
:mod:`kstore_core.testing` contains the tests for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kstore_core.engine.capabilities import Capabilities, Durability, EngineOptions
from kstore_core.engine.database import Database
from kstore_core.errors import UnsupportedError

__all__ = ["Engine"]


class Engine(ABC):
    """The base class of a storage engine.

    An instance contains the options of the engine. Its creation must not open anything. If
    ``capabilities.persistent`` is True, it must be possible to pickle the instance, so that another
    process can open the same stores.

    Attributes
    ----------
    name : str
        The name of the engine for ``open_state(engine=…)``. kstore also writes the name to the
        state directory.
    capabilities : Capabilities
        The capabilities of the engine. The class attribute has the capabilities for the default
        options. An instance with other options may have other capabilities.
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
        """Return the names of this engine's stores in the state directory ``root``, sorted.

        The method may only list directories. It must not open, lock or write a file.
        """

    def recognises(self, root: Path) -> bool:
        """Return True if the state directory ``root`` contains files that this engine wrote.

        The core calls this method to find the engine of a directory, and to prevent an open with a
        wrong engine. The method must return False for an empty directory. By default it returns
        True if the directory contains a store of this engine. It should also return True for the
        remains of a damaged store. If it returned False, another engine could create an empty store
        with the same name.

        An engine should keep its stores in ``<root>/<name>/``, where ``name`` is the name of the
        engine. Then the core can name the engine that wrote the folder, even if the engine cannot
        be loaded.

        The method may only list directories. It must not open, lock or write a file.
        """
        return bool(self.stores(root) or self.parents(root))

    @abstractmethod
    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Database:
        """Open the database of a store in the state directory ``root``, or create the database.

        Parameters
        ----------
        root : Path
            The state directory.
        store : str
            The name of the store.
        durability : {"process", "power", "changelog"}
            The level that determines what a write survives.
        read_only : bool
            If True, open the database for reading only, and do not create a missing database.

        Raises
        ------
        FileNotFoundError
            The database does not exist, and ``read_only`` is True.
        EngineLockedError
            Another process or handle has opened the database for writing, and ``read_only`` is
            False.
        CorruptionError
            The files of the database are damaged.
        """

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """Yield a message for each fault in a store's files that a read of the rows might miss.

        Also yield a message for each fault that would crash the process during a read of the rows.
        The method must read the files directly. It must not open a database or change anything. By
        default it yields nothing.

        If ``child`` is given, only the files of this child of the store are checked.

        Raises
        ------
        EngineLockedError
            A process is writing to the files, so they cannot be read.
        """
        return iter(())

    # A child is a segment of a window or session store that is stored in a separate database. An
    # engine without ``capabilities.children`` does not override the following methods.

    def parents(self, root: Path) -> list[str]:
        """Return the names of the stores in ``root`` whose segments are children, sorted.

        The result includes a store without children if :meth:`make_parent` created it. The method
        may only list directories. It must not open, lock or write a file.
        """
        return []

    def make_parent(self, root: Path, store: str, *, durability: Durability = "process") -> bool:
        """Create an empty store, which :meth:`parents` then lists although it has no child yet.

        A window or session store that was opened but never committed has no child. By default this
        method does nothing, and :meth:`parents` lists a store only when it has a child.

        Returns
        -------
        bool
            True if the store was created. False if :meth:`parents` already lists it.
        """
        return False

    def drop_parent(self, root: Path, store: str) -> bool:
        """Remove a store that :meth:`make_parent` created, unless the store has children.

        Return True if the store was removed.
        """
        return False

    def children(self, root: Path, store: str) -> list[str]:
        """Return the names of a store's children, sorted; an empty list if the store is missing.

        The method may only list directories. It must not open, lock or write a file.
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
        """Open the database of a child of a store, or create the database.

        The parameters and exceptions are those of :meth:`open`. The database of a child must not
        depend on another child, or on the database that :meth:`open` creates for ``store``.
        """
        raise self._childless()

    def drop_child(self, root: Path, store: str, child: str) -> None:
        """Remove the database of a child. The database must be closed.

        Raises
        ------
        KeyError
            The store has no child with this name.
        """
        raise self._childless()

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        """Rename a child. The database of the child must be closed.

        Raises
        ------
        KeyError
            The store has no child with the name ``child``.
        FileExistsError
            The store already has a child with the new name.
        """
        raise self._childless()

    def _childless(self) -> UnsupportedError:
        return UnsupportedError(
            f"the engine {self.name!r} stores all segments of a store in one database, so it has "
            "no databases of single segments (capabilities.children is False)"
        )

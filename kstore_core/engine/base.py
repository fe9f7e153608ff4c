"""The engine SPI: storage only.

An :class:`Engine` opens one :class:`~kstore_core.engine.Database` for each store. The core does
staging, tables, versions, upgrades and offsets: an engine never sees a header or a time. These
docstrings are the contract, and :mod:`kstore_core.testing` tests engines against it.
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
    """A kind of storage. Instances hold options, and are cheap until they open something.

    If rows persist, an instance can be pickled, so that other processes can open the same stores.

    Attributes
    ----------
    name : str
        The name for ``open_state(engine=…)``, which the directory records.
    capabilities : Capabilities
        Those of the default options; an instance may have others, depending on its options.
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

        Reads names only: opens, locks and writes nothing.
        """

    def recognises(self, root: Path) -> bool:
        """Return True if this engine wrote files that lie in the state directory ``root``.

        Core calls this if the directory does not record its engine, and before it opens another
        engine there. No engine recognises an empty directory. By default the engine recognises a
        directory with one of its stores. An engine that also recognises the remains of a damaged
        store keeps other engines from making an empty store beside it. Stores should lie in
        ``<root>/<name>/``: if the engine cannot be loaded, core attributes that folder to it.

        Reads names only: opens, locks and writes nothing.
        """
        return bool(self.stores(root) or self.parents(root))

    @abstractmethod
    def open(
        self, root: Path, store: str, *, durability: Durability = "process", read_only: bool = False
    ) -> Database:
        """Open a store's database in the state directory ``root``; a missing one is made.

        Raises
        ------
        FileNotFoundError
            The database is missing and ``read_only`` is set.
        EngineLockedError
            Another process or handle has it open for writing, and this is not read-only.
        CorruptionError
            Its files cannot be trusted.
        """

    def file_faults(self, root: Path, store: str, child: str | None = None) -> Iterator[str]:
        """The faults in a store's files that a read of its rows may not show, or not survive.

        Reads the files directly, opens no database and changes nothing. By default there are no
        faults, because a read shows all of them.

        Parameters
        ----------
        child : str, optional
            Check the files of this child.

        Raises
        ------
        EngineLockedError
            The files cannot be read while they are written to.
        """
        return iter(())

    # Children: the segments of a window or session store, if each is a database of its own. An
    # engine without ``capabilities.children`` does not override these methods.

    def parents(self, root: Path) -> list[str]:
        """Return the names of the stores in ``root`` that have, or may get, children, sorted.

        Reads names only: opens, locks and writes nothing.
        """
        return []

    def make_parent(self, root: Path, store: str, *, durability: Durability = "process") -> bool:
        """Add a store to :meth:`parents` before its first child is made.

        So the directory lists a store that was opened and never committed, which is empty. By
        default, the directory lists a store once it has a child.

        Returns
        -------
        bool
            True if the store was added, False if it was listed before.
        """
        return False

    def drop_parent(self, root: Path, store: str) -> bool:
        """Undo :meth:`make_parent`, unless the store has children. Return True if it was undone."""
        return False

    def children(self, root: Path, store: str) -> list[str]:
        """Return the names of a store's children, sorted; empty if there is no such store.

        Reads names only: opens, locks and writes nothing.
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
        """Open one child of a store; a missing one is made. Raises the same as :meth:`open`.

        Children are independent of one another and of the database of the same store's name.
        """
        raise self._childless()

    def drop_child(self, root: Path, store: str, child: str) -> None:
        """Remove a closed child and its contents.

        Raises
        ------
        KeyError
            No child has this name.
        """
        raise self._childless()

    def rename_child(self, root: Path, store: str, child: str, name: str) -> None:
        """Rename a closed child.

        Raises
        ------
        KeyError
            No child has this name.
        FileExistsError
            A child has the new name.
        """
        raise self._childless()

    def _childless(self) -> UnsupportedError:
        return UnsupportedError(
            f"the engine {self.name!r} keeps the segments of a store in one database; it has no "
            "children (capabilities.children)"
        )

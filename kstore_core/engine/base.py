"""The engine SPI: storage only, without what core does once for all engines.

An :class:`Engine` opens one :class:`~kstore_core.engine.Database` a store. Staging, tables,
versions, upgrades and offsets are core's: an engine never sees a header or a time. These
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

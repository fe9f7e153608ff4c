"""The parts of an open store, which its methods use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstore_core.clock import StreamClock
from kstore_core.spec import StoreSpec

__all__ = ["StoreParts"]


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of a store that queries, restores and notebooks use.

    Attributes
    ----------
    label : str
        The store's repr.
    spec : StoreSpec
    context : StoreContext
    table : Table or VersionedTable
    values : Values
        Converts keys and values to and from bytes.
    clock : StreamClock or None
    rows : WindowRows, SessionRows or None
        Converts the rows of a window or session store to items.
    fetch : callable or None
        :meth:`kstore_core.typed.reads.Reads.fetch` of a window or session store.
    """

    label: str
    spec: StoreSpec
    context: Any
    table: Any
    values: Any
    clock: StreamClock | None = None
    rows: Any = None
    fetch: Any = None

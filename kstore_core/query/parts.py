"""The parts of an open store that stand below its methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstore_core.clock import StreamClock
from kstore_core.spec import StoreSpec

__all__ = ["StoreParts"]


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of a store that queries, restores and notebooks read it by.

    Attributes
    ----------
    label : str
        The store's repr.
    spec : StoreSpec
    context : StoreContext
    table : Table or VersionedTable
    values : Values
        Keys and values to and from bytes.
    clock : StreamClock or None
    rows : WindowRows, SessionRows or None
        Of a window or session store: rows to items.
    fetch : callable or None
        Of a window or session store: :meth:`kstore_core.typed.reads.Reads.fetch`.
    """

    label: str
    spec: StoreSpec
    context: Any
    table: Any
    values: Any
    clock: StreamClock | None = None
    rows: Any = None
    fetch: Any = None

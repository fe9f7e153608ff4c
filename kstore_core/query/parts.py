"""The parts of an open store that other modules use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock

__all__ = ["StoreParts"]


@dataclass(frozen=True, slots=True)
class StoreParts:
    """The parts of a store that queries, restores and notebooks use.

    Attributes
    ----------
    label : str
        The ``repr`` of the store.
    spec : StoreSpec
        The spec of the store.
    context : StoreContext
        The context of the open store, which has its partition, position and cache.
    table : Table or VersionedTable
        The table of the encoded rows.
    values : Values
        The conversion of keys and values to and from bytes.
    clock : StreamClock or None
        The stream time; None if the rows of the store do not expire.
    rows : WindowRows, SessionRows or None
        The conversion of the rows of a window or session store to items; None for other stores.
    fetch : callable or None
        The method :meth:`kstore_core.typed.reads.Reads.fetch` of a window or session store; None
        for other stores.
    """

    label: str
    spec: StoreSpec
    context: Any
    table: Any
    values: Any
    clock: StreamClock | None = None
    rows: Any = None
    fetch: Any = None

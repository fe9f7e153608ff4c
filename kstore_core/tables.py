"""The waist: an ordered table of bytes, which is all that layers and shapes ever see.

A table has one mutating idea, :meth:`Table.write`; :meth:`Table.put_one` is its allocation-free
case. ``None`` as a value deletes. Ranges are half-open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kstore_core.engine import Chunk, Database
from kstore_core.errors import (
    FormatDowngradeError,
    InconsistentStateError,
    UnsupportedError,
)
from kstore_core.formats import FORMATS, ValueFormat
from kstore_core.staging import StagedNamespace, Staging
from kstore_core.types import RecordContext

__all__ = ["OFFSETS", "Bounds", "NamespaceTable", "Table", "Write", "open_table"]

OFFSETS = "offsets"
"""The namespace of offsets, position and the stored spec; Kafka's column family of that name."""

_EVERYWHERE = frozenset({"default", OFFSETS})


class Write(NamedTuple):
    """One row to write, with the input record that it comes from."""

    key: bytes
    value: bytes | None
    context: RecordContext | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which rows a scan reads: ``lo <= key < hi``, None leaving an end open, and which way."""

    lo: bytes | None = None
    hi: bytes | None = None
    reverse: bool = False


class Table(Protocol):
    """An ordered map of bytes that is written to in one way."""

    get: Callable[[bytes], bytes | None]
    """The value of a key, or None."""

    put_one: Callable[[bytes, bytes | None], None]
    """``write`` of a single row without a context, without allocating anything for it."""

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order."""

    def write(self, writes: Iterable[Write]) -> None:
        """Write rows, in their order: all of them, or none where they are refused."""

    def scan(self, bounds: Bounds) -> Iterator[Chunk]:
        """Chunks of rows in key order, as of this call."""

    def load(self, chunks: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> int:
        """Bulk load ascending rows; returns how many."""

    def approximate_count(self) -> int:
        """How many rows there are, about."""


class NamespaceTable:
    """A table whose rows are one namespace's, staged rows first."""

    # Bound when made: a lookup is the staged namespace's own, without a frame of the table's.

    def __init__(self, rows: StagedNamespace) -> None:
        self.rows = rows
        self.get = rows.get
        self.get_many = rows.get_many
        self.put_one = rows.put
        self.delete_range = rows.delete_range
        self.first = rows.first
        self.load = rows.load
        self.approximate_count = rows.approximate_count

    def write(self, writes: Iterable[Write]) -> None:
        self.rows.put_many([(key, value) for key, value, _ in writes])

    def scan(self, bounds: Bounds) -> Iterator[Chunk]:
        return self.rows.scan(bounds.lo, bounds.hi, reverse=bounds.reverse)


def open_table(
    database: Database, staging: Staging, value_format: ValueFormat, *, writable: bool
) -> NamespaceTable:
    """The table of a store's rows, after a look at what the database holds.

    The rules are Kafka's (``RocksDBStore.openRocksDB`` and its timestamped and headers kin).

    Raises
    ------
    FormatDowngradeError
        The database holds a format that ``value_format`` is older than.
    InconsistentStateError
        It holds a namespace that no format of this kind of store has, or two old formats at once.
    UnsupportedError
        It holds rows of an older format.
    """
    found = set(database.namespaces())
    kin = {f.namespace: f for f in FORMATS.values() if f.versioned == value_format.versioned}
    where = f"the store at {database.path}"
    for name in sorted(found - _EVERYWHERE - set(kin)):
        raise InconsistentStateError(
            f"unexpected namespace {name!r} in {where}: no format of a "
            f"{'versioned' if value_format.versioned else 'key-value'} store has it, so this is "
            "another kind of store, or another program's; nothing was changed"
        )
    for name, other in kin.items():
        if name in found and value_format.name in other.upgrades_from:
            raise FormatDowngradeError(
                f"{where} holds the format {other.name!r} and was opened as "
                f"{value_format.name!r}; a store is not downgraded in place. Open it as "
                f"{other.name!r}, or rebuild it from its changelog in an empty directory"
            )
    old = [
        kin_format.name
        for name, kin_format in kin.items()
        if kin_format.name in value_format.upgrades_from
        and name in found
        and database.namespace(name).first() is not None
    ]
    if len(old) > 1:
        raise InconsistentStateError(
            f"inconsistent state: {where} holds rows of {' and of '.join(old)}, which cannot both "
            "be its older format; nothing was changed"
        )
    if (
        old
        and value_format.namespace in found - _EVERYWHERE
        and (database.namespace(value_format.namespace).first() is not None)
    ):
        raise UnsupportedError(
            f"{where} holds rows of {old[0]!r} and of {value_format.name!r}: it is in the middle "
            "of an upgrade, which this kstore cannot read yet. Let Kafka Streams go on with it, or "
            "rebuild the store from its changelog in an empty directory"
        )
    if old:
        raise UnsupportedError(
            f"{where} holds rows of the older format {old[0]!r} and was opened as "
            f"{value_format.name!r}; upgrading in place is not built yet. Open it as {old[0]!r}"
        )
    if not writable and value_format.namespace not in found:
        # A read-only open makes nothing, so there is nothing to read but the old, empty namespace.
        return NamespaceTable(StagedNamespace(staging, database, "default", writable=False))
    return NamespaceTable(StagedNamespace(staging, database, value_format.namespace, writable))

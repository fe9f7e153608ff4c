"""The formats in a database at its open, and the table that reads it: Kafka's rules in one place.

The rules are those of ``RocksDBStore.openRocksDB`` and its timestamped and headers variants.
docs/upgrade.md has a table of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from kstore_core.engine import Database
from kstore_core.errors import FormatDowngradeError, InconsistentStateError
from kstore_core.formats import PLAIN, TIMESTAMPED, ValueFormat, by_name, of_shape
from kstore_core.hints import command
from kstore_core.tables import OFFSETS, NamespaceTable, StoredTable
from kstore_core.tables.staging import StagedNamespace, Staging
from kstore_core.tables.upgrade.dual import DualTable

__all__ = ["DEFAULT", "Layout", "check_namespaces", "drop_empty", "look_at", "open_table"]

DEFAULT = "default"
"""The namespace of every database, which is never dropped."""

_log = logging.getLogger("kstore_core")


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a store's rows when it is opened as one format.

    Attributes
    ----------
    older : ValueFormat or None
        The older format that some rows still have, if any.
    empty : tuple of str
        Empty namespaces of older formats, which may be dropped.
    """

    older: ValueFormat | None
    empty: tuple[str, ...] = ()


def look_at(
    database: Database,
    value_format: ValueFormat,
    shape: str | None = None,
    store: str | None = None,
) -> Layout:
    """Return the layout of a database as a store of ``value_format``. Changes nothing.

    Parameters
    ----------
    shape : str, optional
        The store's shape; the first shape of the format by default.
    store : str, optional
        The store's name; that of the database by default.

    Raises
    ------
    FormatDowngradeError
        The database has a newer format than ``value_format``.
    InconsistentStateError
        It has a namespace that no format of this kind of store has, or two older formats at once.
    """
    found = check_namespaces(database, value_format, shape)
    present = [f for f in map(by_name, value_format.upgrades) if f.namespace in found]
    full = [f for f in present if database.namespace(f.namespace).first() is not None]
    moved = [f for f in present if f.namespace != DEFAULT]
    if len(full) > 1 or (full and full[0].namespace == DEFAULT and moved):
        finish = value_format if value_format.namespace in found else moved[-1]
        rows = " and of ".join(old.name for old in full)
        beside = "" if len(full) > 1 else f" beside the empty namespace of {moved[0].name}"
        raise InconsistentStateError(
            f"inconsistent state: the store at {database.path} holds rows of {rows}{beside} and "
            f"was opened as {value_format.name!r}: an earlier upgrade was begun and not finished; "
            "nothing was changed. Finish it with: "
            + command("upgrade", "PATH", store or database.path.name, options=f"--to {finish.name}")
        )
    empty = tuple(f.namespace for f in moved if f not in full)
    return Layout(full[0] if full else None, empty)


def check_namespaces(
    database: Database, value_format: ValueFormat, shape: str | None = None
) -> set[str]:
    """Return the namespaces of a database, after a check that a store of this format may have them.

    Raises
    ------
    FormatDowngradeError, InconsistentStateError
        A namespace belongs to a newer format, or to no format of this shape.
    """
    found = set(database.namespaces())
    older = {by_name(name).namespace for name in value_format.upgrades}
    for name in sorted(found - {OFFSETS, DEFAULT, value_format.namespace} - older):
        _refuse(name, value_format, shape or value_format.shapes[0], database)
    return found


def _refuse(name: str, value_format: ValueFormat, shape: str, database: Database) -> None:
    """Refuse a namespace that does not belong to a store of this format."""
    where = f"the store at {database.path}"
    newer = next((f for f in of_shape(shape) if f.namespace == name), None)
    if newer is not None and value_format.name in newer.upgrades:
        raise FormatDowngradeError(
            f"{where} holds the format {newer.name!r} and was opened as {value_format.name!r}; a "
            f"store is not downgraded in place. Open it as {newer.name!r}, or write it anew in the "
            f"older format: kstore migrate PATH STORE --to {value_format.name}"
        )
    raise InconsistentStateError(
        f"unexpected namespace {name!r} in {where}: no format of a {shape.replace('_', '-')} store "
        "has it, so this is another kind of store, or another program's; nothing was changed"
    )


def open_table(
    database: Database,
    staging: Staging,
    value_format: ValueFormat,
    *,
    writable: bool,
    migrate_on_read: bool = True,
    shape: str | None = None,
    store: str | None = None,
    segment_bytes: int = 0,
) -> StoredTable:
    """Return the table of a store's rows, chosen by the layout of the database.

    A writable open drops the empty namespaces of older formats; a read-only open changes nothing.

    Parameters
    ----------
    migrate_on_read : bool
        A lookup moves a row of an older format.
    shape, store : str, optional
        As for :func:`look_at`.
    segment_bytes : int
        The size of the segment id in front of each key.

    Raises
    ------
    FormatDowngradeError, InconsistentStateError
        As :func:`look_at` does.
    """
    layout = look_at(database, value_format, shape, store)
    if writable:
        drop_empty(database, layout)
    _log.info("Opening store %s in %s", database.path.name, _mode(value_format, layout))
    rows = StagedNamespace(staging, database, value_format.namespace, writable)
    if layout.older is None:
        return NamespaceTable(rows)
    older = StagedNamespace(staging, database, layout.older.namespace, writable)
    convert = value_format.conversion(layout.older.name, segment_bytes)
    return DualTable(older, rows, convert, migrate_on_read=migrate_on_read)


def drop_empty(database: Database, layout: Layout) -> None:
    """Drop the empty namespaces of a layout.

    The writes that emptied them are made durable first, because a drop survives a power cut.
    """
    if layout.empty:
        database.sync()
    for name in layout.empty:
        database.drop_namespace(name)
        _log.info("Dropped the empty namespace %s of store %s", name, database.path.name)


def _mode(value_format: ValueFormat, layout: Layout) -> str:
    """Return the mode of an open, in the words of Kafka's log, so that a search finds both."""
    if layout.older is None:
        return "regular headers-aware mode" if value_format.headers else "regular mode"
    if not value_format.headers:
        return "upgrade mode"
    kafka = {PLAIN: "plain key value", TIMESTAMPED: "timestamped"}
    return f"upgrade mode from {kafka.get(layout.older, layout.older.name)} store"

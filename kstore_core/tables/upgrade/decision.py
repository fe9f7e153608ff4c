"""The choice of the table for a database, according to the formats of the rows in the database.

The rules are those of ``RocksDBStore.openRocksDB`` in Kafka Streams and of its subclasses for
timestamps and headers. docs/upgrade.md has a table of these rules.
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
"""The name of the namespace that every database has, and that is never dropped."""

_log = logging.getLogger("kstore_core")


@dataclass(frozen=True, slots=True)
class Layout:
    """The older formats in a database that is opened in a newer format.

    Attributes
    ----------
    older : ValueFormat or None
        The older format of some of the rows; None if no row has an older format.
    empty : tuple of str
        The names of the empty namespaces of older formats. These namespaces may be dropped.
    """

    older: ValueFormat | None
    empty: tuple[str, ...] = ()


def look_at(
    database: Database,
    value_format: ValueFormat,
    shape: str | None = None,
    store: str | None = None,
) -> Layout:
    """Return the older format of rows in a database, and the names of empty older namespaces.

    The database is not changed.

    Parameters
    ----------
    database : Database
    value_format : ValueFormat
        The format of the spec with which the store is opened.
    shape : str, optional
        The shape of the store; the first shape of the format if None.
    store : str, optional
        The name of the store for errors; the name of the database's directory if None.

    Raises
    ------
    FormatDowngradeError
        The database contains a newer format than ``value_format``.
    InconsistentStateError
        The database has a namespace that no format of this shape uses. Or it contains rows of two
        older formats, or rows in the default namespace and an empty namespace of an older format.
    """
    found = check_namespaces(database, value_format, shape)
    present = [f for f in map(by_name, value_format.upgrades) if f.namespace in found]
    full = [f for f in present if database.namespace(f.namespace).first() is not None]
    moved = [f for f in present if f.namespace != DEFAULT]
    if len(full) > 1 or (full and full[0].namespace == DEFAULT and moved):
        finish = value_format if value_format.namespace in found else moved[-1]
        rows = "rows of " + " and of ".join(old.name for old in full)
        if len(full) == 1:
            rows += f", and also an empty namespace of {moved[0].name}"
        raise InconsistentStateError(
            f"inconsistent state: the store at {database.path} contains {rows}. It was opened with "
            f"the format {value_format.name!r}. An earlier upgrade was begun but not finished. "
            "Nothing was changed. Finish the upgrade with: "
            + command("upgrade", "PATH", store or database.path.name, options=f"--to {finish.name}")
        )
    empty = tuple(f.namespace for f in moved if f not in full)
    return Layout(full[0] if full else None, empty)


def check_namespaces(
    database: Database, value_format: ValueFormat, shape: str | None = None
) -> set[str]:
    """Return the names of a database's namespaces. Raise if a namespace does not fit the format.

    Raises
    ------
    FormatDowngradeError
        A namespace belongs to a newer format than ``value_format``.
    InconsistentStateError
        A namespace belongs to no format of this shape.
    """
    found = set(database.namespaces())
    older = {by_name(name).namespace for name in value_format.upgrades}
    for name in sorted(found - {OFFSETS, DEFAULT, value_format.namespace} - older):
        _refuse(name, value_format, shape or value_format.shapes[0], database)
    return found


def _refuse(name: str, value_format: ValueFormat, shape: str, database: Database) -> None:
    """Raise the error for a namespace that does not belong to a store of this format."""
    where = f"the store at {database.path}"
    newer = next((f for f in of_shape(shape) if f.namespace == name), None)
    if newer is not None and value_format.name in newer.upgrades:
        raise FormatDowngradeError(
            f"{where} has the format {newer.name!r}, but was opened with a spec of the older "
            f"format {value_format.name!r}. A store cannot be downgraded in place. Open the store "
            f"with a spec of the format {newer.name!r}, or rewrite the store in the older format: "
            f"kstore migrate PATH STORE --to {value_format.name}"
        )
    raise InconsistentStateError(
        f"unexpected namespace {name!r} in {where}: no format of a {shape.replace('_', '-')} store "
        "has this namespace. Either the store has another shape, or another program wrote the "
        "namespace. Nothing was changed. Open the store with a spec of its shape"
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
    """Return the table of a store's rows.

    If the database contains rows of an older format, the table reads both formats. If all rows have
    the new format, the table reads a single namespace.

    Parameters
    ----------
    database : Database
    staging : Staging
        The limit of the staged bytes of the state directory.
    value_format : ValueFormat
        The format of the spec with which the store is opened.
    writable : bool
        If True, drop the empty namespaces of older formats. If False, change nothing.
    migrate_on_read : bool
        If True, a lookup of a row in the older format moves the row to the new format.
    shape, store : str, optional
        As in :func:`look_at`.
    segment_bytes : int
        The size in bytes of the segment id at the beginning of each key; 0 if there is none.

    Raises
    ------
    FormatDowngradeError, InconsistentStateError
        See :func:`look_at`.
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

    Earlier writes have moved the rows of these namespaces. A power cut may undo writes that are not
    synced, but it does not undo the drop. So the database is synced before the drop.
    """
    if layout.empty:
        database.sync()
    for name in layout.empty:
        database.drop_namespace(name)
        _log.info("Dropped the empty namespace %s of store %s", name, database.path.name)


def _mode(value_format: ValueFormat, layout: Layout) -> str:
    """Return the mode of an open in the words of the log of Kafka Streams."""
    if layout.older is None:
        return "regular headers-aware mode" if value_format.headers else "regular mode"
    if not value_format.headers:
        return "upgrade mode"
    kafka = {PLAIN: "plain key value", TIMESTAMPED: "timestamped"}
    return f"upgrade mode from {kafka.get(layout.older, layout.older.name)} store"

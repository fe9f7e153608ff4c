"""The check of one database: every row of every namespace, read by scans and by lookups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from operator import ge

from kstore_core.codec.keys.row_pairs import RowPairs
from kstore_core.engine import Chunk, Database, Namespace
from kstore_core.errors import FormatError, KStoreError
from kstore_core.hints import command
from kstore_core.maintenance.verify.chains import broken_chains
from kstore_core.maintenance.verify.entries import checked_entry, joined
from kstore_core.maintenance.verify.findings import Counts
from kstore_core.maintenance.verify.kinds import Kind
from kstore_core.maintenance.verify.rows import LEFT_OUT, Fault, RowCheck, SegmentTime
from kstore_core.offsets.entries import StoreRecord
from kstore_core.tables import OFFSETS
from kstore_core.tables.upgrade.decision import check_namespaces, look_at

__all__ = ["DatabaseCheck", "FaultCallback"]

FaultCallback = Callable[[Fault, str | None, bytes | None], None]
"""Called with a fault, its namespace and its stored key."""

_INDEX = b"\x01"


@dataclass(slots=True, eq=False)
class DatabaseCheck:
    """Reads one database of a store.

    Parameters
    ----------
    database : Database
        A read-only database.
    kind : Kind
        The kind of the store.
    store : str
    on_fault : FaultCallback
    note : callable
        Called for a check that is not possible, with a text and a namespace.
    count : callable
        Called at intervals with Counts, a namespace and a key, so that the place of a crash is
        known.
    id_bytes : int
        The bytes of a segment's id before the key of each row.
    segment : SegmentTime or None
        The time of the segment, if the database is that of a segment.
    """

    database: Database
    kind: Kind
    store: str
    _: KW_ONLY
    on_fault: FaultCallback
    note: Callable[[str, str | None], None]
    count: Callable[[Counts, str, bytes | None], None]
    id_bytes: int = 0
    segment: SegmentTime | None = None

    def run(self) -> StoreRecord:
        """Read every namespace, also after a failure in one of them.

        Returns
        -------
        StoreRecord
            The readable part of the store's record.
        """
        names = sorted(self.database.namespaces())
        self.count(Counts(databases=1, namespaces=len(names)), OFFSETS, None)
        self._check_layout(names)
        record = StoreRecord()
        rows = []
        for name in names:
            try:
                namespace = self.database.namespace(name)
                if name == OFFSETS:
                    record = self._check_entries(namespace)
                elif self._check_rows(namespace, names):
                    rows.append(namespace)
            except KStoreError as error:
                self.on_fault(Fault("unreadable", str(error)), name, None)
        try:
            self._check_together(rows)
        except KStoreError as error:
            self.on_fault(Fault("unreadable", str(error)), None, None)
        return record

    def _check_layout(self, names: Sequence[str]) -> None:
        """Check the namespaces against the kind of store, and find unfinished upgrades."""
        newest = self.kind.newest(names)
        if newest is None:
            return
        try:
            check_namespaces(self.database, newest, self.kind.family)
            layout = look_at(self.database, newest, self.kind.family, self.store)
        except KStoreError as error:
            self.on_fault(Fault("namespaces", str(error)), None, None)
            return
        if layout.older is not None:
            count = self.database.namespace(layout.older.namespace).approximate_count()
            self.note(
                f"about {count} rows are still {layout.older.name}: the upgrade to {newest.name} "
                "is unfinished, and moves a row when it is used. Move all rows with: "
                + command("upgrade", "PATH", self.store),
                layout.older.namespace,
            )

    def _check_entries(self, namespace: Namespace) -> StoreRecord:
        """Check each entry, and return the record of all of them."""
        records = []
        for keys, values in self._chunks(namespace):
            for key, value in zip(keys, values, strict=True):
                record, fault = checked_entry(key, value, self.store)
                records.append(record)
                if fault is not None:
                    self.on_fault(fault, OFFSETS, key)
            self.count(Counts(entries=len(keys)), OFFSETS, keys[-1])
        return joined(records)

    def _check_rows(self, namespace: Namespace, names: Sequence[str]) -> bool:
        """Check row by row; return True if there are rows."""
        name = namespace.name
        value_format = self.kind.format_of(name, names)
        check = RowCheck(self.kind, value_format, self.id_bytes, self.segment)
        is_used = False
        for keys, values in self._chunks(namespace):
            is_used = True
            for key, value in zip(keys, values, strict=True):
                for fault in check.check(key, value):
                    self.on_fault(fault, name, key)
            if namespace.get_many(keys) != values:
                self._check_lookups(namespace, keys, values)
            size = sum(map(len, keys)) + sum(map(len, values))
            self.count(Counts(rows=len(keys), bytes=size), name, keys[-1])
        self.count(Counts(versions=check.versions), name, None)
        if is_used and value_format is None:
            kind = " or ".join(self.kind.families).replace("_", "-")
            self.note(
                f"the store has no stored spec and may be {kind}, so values are not decoded; "
                "describe it with --shape and further options",
                name,
            )
        return is_used

    def _chunks(self, namespace: Namespace) -> Iterator[Chunk]:
        """Yield the chunks of a scan, up to a key out of order: after it the scan may never end."""
        last: bytes | None = None
        for keys, values in namespace.scan():
            if (last is not None and keys[0] <= last) or any(map(ge, keys, keys[1:])):
                self.on_fault(
                    Fault("order", "the keys do not ascend; the rest is not read"),
                    namespace.name,
                    keys[0],
                )
                return
            yield keys, values
            last = keys[-1]

    def _check_lookups(
        self, namespace: Namespace, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> None:
        for key, value in zip(keys, values, strict=True):
            found = namespace.get(key)
            if found != value:
                what = "nothing" if found is None else "another value"
                self.on_fault(
                    Fault("lookup", f"a lookup finds {what}, and a scan shows the row"),
                    namespace.name,
                    key,
                )

    def _check_together(self, rows: Sequence[Namespace]) -> None:
        """Check several rows together: two formats, index rows, chains of versions."""
        for number, namespace in enumerate(rows):
            for other in rows[number + 1 :]:
                self._check_twice(namespace, other)
        if self.kind.family == "versioned":
            for link, why in broken_chains(rows):
                self.on_fault(Fault("chain", why), None, link.stored_key)
        spec = self.kind.spec
        if spec is not None and spec.indexed and self.kind.described and not self._has_index(rows):
            if rows:
                self.on_fault(LEFT_OUT["no index"], None, None)
        elif spec is not None and spec.indexed:
            pairs = self.kind.row_keys()[0].pairs
            assert pairs is not None
            for namespace in rows:
                self._check_index(namespace, rows, pairs)

    def _has_index(self, rows: Sequence[Namespace]) -> bool:
        size = self.id_bytes
        return any(
            key[size:].startswith(_INDEX)
            for namespace in rows
            for keys, _ in namespace.scan()
            for key in keys
        )

    def _check_twice(self, namespace: Namespace, other: Namespace) -> None:
        """Report rows that exist in two formats; an upgrade deletes the older row."""
        for keys, _ in namespace.scan():
            for key, value in zip(keys, other.get_many(keys), strict=True):
                if value is not None:
                    why = f"the row also exists in {other.name!r}, in another format"
                    self.on_fault(Fault("two formats", why, serious=False), namespace.name, key)

    def _check_index(
        self, namespace: Namespace, rows: Sequence[Namespace], pairs: RowPairs
    ) -> None:
        """Report rows without their index row, and index rows without their row."""
        size = self.id_bytes
        for keys, _ in namespace.scan():
            others = []
            for key in keys:
                is_index = key[size:].startswith(_INDEX)
                other = pairs.row_of if is_index else pairs.index_of
                try:
                    others.append(key[:size] + other(key[size:]))
                except FormatError:
                    others.append(key)  # reported by the check of single rows
            missing = [
                key
                for key, *found in zip(
                    keys, *(space.get_many(others) for space in rows), strict=True
                )
                if all(value is None for value in found)
            ]
            for key in missing:
                self.on_fault(_alone(key[size:]), namespace.name, key)


def _alone(key: bytes) -> Fault:
    if key.startswith(_INDEX):
        why = "the index row of an interrupted write has no row; a scan deletes it"
        return Fault("index", why, serious=False)
    return Fault("index", "the row has no index row, so a fetch by its key misses it")

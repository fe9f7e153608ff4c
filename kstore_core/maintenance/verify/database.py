"""The check of one database. It reads every row of every namespace by scans and by lookups."""

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
"""A function that is called with a fault, its namespace or None, and its stored key or None."""

_INDEX = b"\x01"


@dataclass(slots=True, eq=False)
class DatabaseCheck:
    """The check of one database of a store.

    Parameters
    ----------
    database : Database
        The database, opened read-only.
    kind : Kind
        The kind of the store.
    store : str
    on_fault : FaultCallback
    note : callable
        A function that is called with a text and a namespace, if a check is not possible or an
        upgrade is unfinished.
    count : callable
        A function that is called at intervals with `Counts`, a namespace and a key. If the process
        crashes, the last call gives the place of the damage.
    id_bytes : int
        The number of bytes that a segment's id occupies at the start of each stored key; 0 if
        stored keys have no segment id.
    segment : SegmentTime or None
        The time range of the segment if the database contains a single segment.
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
        """Read and check every namespace. If a namespace cannot be read, report it and continue.

        Returns
        -------
        StoreRecord
            The part of the store's metadata that can be read.
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
        """Check that this kind of store may have the namespaces, and report unfinished upgrades."""
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
                f"about {count} rows still have the format {layout.older.name}, because the "
                f"upgrade to {newest.name} is unfinished. Upgrade all rows with: "
                + command("upgrade", "PATH", self.store),
                layout.older.namespace,
            )

    def _check_entries(self, namespace: Namespace) -> StoreRecord:
        """Check each entry of the metadata, and return the metadata of all undamaged entries."""
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
        """Check each row of a namespace. Return True if the namespace has rows."""
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
                f"the store has no stored spec, and its shape may be {kind}, so values are not "
                "decoded. To check the values, describe the store with --shape and further options",
                name,
            )
        return is_used

    def _chunks(self, namespace: Namespace) -> Iterator[Chunk]:
        """Yield the chunks of a scan, and stop at keys that do not ascend.

        Without this stop, the scan of a damaged database may never end.
        """
        last: bytes | None = None
        for keys, values in namespace.scan():
            if (last is not None and keys[0] <= last) or any(map(ge, keys, keys[1:])):
                self.on_fault(
                    Fault(
                        "order",
                        "the keys are not in ascending order, so the rest of the namespace was not "
                        "read",
                    ),
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
                    Fault("lookup", f"a scan reads the row, but a lookup of its key finds {what}"),
                    namespace.name,
                    key,
                )

    def _check_together(self, rows: Sequence[Namespace]) -> None:
        """Run the checks that compare rows with other rows.

        These checks find rows in two formats, missing index rows, and versions that overlap.
        """
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
        """Report rows that exist in two formats. An upgrade should have deleted the older row."""
        for keys, _ in namespace.scan():
            for key, value in zip(keys, other.get_many(keys), strict=True):
                if value is not None:
                    why = f"the namespace {other.name!r} also has this row, in another format"
                    self.on_fault(Fault("two formats", why, serious=False), namespace.name, key)

    def _check_index(
        self, namespace: Namespace, rows: Sequence[Namespace], pairs: RowPairs
    ) -> None:
        """Report rows that have no index row, and index rows that have no row."""
        size = self.id_bytes
        for keys, _ in namespace.scan():
            others = []
            for key in keys:
                is_index = key[size:].startswith(_INDEX)
                other = pairs.row_of if is_index else pairs.index_of
                try:
                    others.append(key[:size] + other(key[size:]))
                except FormatError:
                    others.append(key)  # the check of single rows reports this key
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
        why = (
            "an interrupted write left an index row without a row; the next scan deletes the index "
            "row"
        )
        return Fault("index", why, serious=False)
    return Fault("index", "the row has no index row, so a fetch by its key does not find the row")

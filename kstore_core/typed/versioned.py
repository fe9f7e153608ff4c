"""The versioned store, which returns the value of a key at any time in the retained history."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import RetentionExceededError
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds
from kstore_core.tables.scan import Scan
from kstore_core.tables.version_scans import Version
from kstore_core.tables.versioned import VersionedTable
from kstore_core.typed.bulk import columns_of, columns_of_format, encoded, times_of
from kstore_core.typed.points import VersionPoints, version_time
from kstore_core.typed.store import Store, StoreContext
from kstore_core.typed.values import VersionedValues, values_of
from kstore_core.types import (
    Time,
    VersionedRecord,
    VersionedRecordWithHeaders,
    to_millis,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "OnExpired",
    "VersionedKeyValueStore",
    "VersionedKeyValueStoreWithHeaders",
    "VersionedStore",
]

K = TypeVar("K")
R = TypeVar("R")
V = TypeVar("V")

OnExpired = Literal["none", "raise"]
"""The result of a read before the retained history: as in Kafka Streams, or an error."""


class VersionedStore(VersionPoints[K, R], Store[K], Generic[K, R]):
    """A versioned key-value store. ``R`` is the type of the records that its reads return.

    A version is valid from its timestamp, inclusive, until the timestamp of the next version or
    tombstone, exclusive. A write is dropped if its timestamp is before stream time minus the
    retention. A time must be an int (ms) or a datetime with a time zone. The time of a write must
    not be negative.

    The argument ``on_expired`` of a read decides what happens if the time of the read is before the
    retained history. With ``"none"``, as in Kafka Streams, the read returns the latest version if
    this version was already valid at that time, and otherwise None. With ``"raise"`` the read
    raises RetentionExceededError.

    Attributes
    ----------
    table : VersionedTable
        The table of serialised keys and versions.
    clock : StreamClock
    """

    def __init__(self, spec: StoreSpec, table: VersionedTable, context: StoreContext) -> None:
        super().__init__(spec, context)
        self._record_now = context.current_record.of_a_write
        self.table = table
        self.clock = table.clock
        values = cast("VersionedValues", values_of(spec, context.current_record))
        self._encoder = values
        self._raw_key = values.raw_key
        self._record_of = values.record
        self._item = values.item
        self._table_of = values.table
        self._bound = (values, table, context.touch)
        self._bind(*self._bound)
        self.parts = StoreParts(repr(self), spec, context, table, values, self.clock)

    def put_many(self, keys: Any, values: Any, timestamps: Any = None, headers: Any = None) -> None:
        """Put many rows. The result is the same as after one put for each row, in order.

        Parameters
        ----------
        keys, values, timestamps, headers
            As in :meth:`KeyValueStore.put_many`, which also describes the errors. A null value is a
            tombstone. A version is valid from its timestamp on.
        """
        record = self._record_now()
        if timestamps is None:
            times = [version_time(None, record)] * len(keys)
        else:
            times = times_of(timestamps, "timestamps", len(keys))
        if times and min(times) < 0:
            version_time(min(times), record)  # raises
        chunks = encoded(self._encoder, keys, values, None, headers)
        for first, raw_keys, raws in chunks:
            self._put_all(raw_keys, raws, times[first : first + len(raw_keys)])
        if record is not None and len(keys):
            self._touch(record)

    def put_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Put the versions of a table with the columns of :meth:`Scan.to_arrow`.

        The columns are ``key``, ``value`` and ``timestamp``, and ``headers`` if the format has
        them. A column ``valid_to`` is ignored. The errors are those of
        :meth:`KeyValueStore.put_arrow`.
        """
        found = columns_of(table, columns_of_format(self.spec), ("valid_to",), self.name)
        self.put_many(found["key"], found["value"], found.get("timestamp"), found.get("headers"))

    def get_many(
        self, keys: Iterable[K], as_of: Time | None = None, *, on_expired: OnExpired = "none"
    ) -> list[R | None]:
        """Return the latest version of each key, or the version that was valid at ``as_of``."""
        millis = self._as_of(as_of, on_expired)
        given = list(keys)
        versions = self.table.get_many([self._raw_key(key) for key in given], millis)
        return [self._record(found, key) for key, found in zip(given, versions, strict=True)]

    def history(
        self,
        key: K,
        from_ts: Time | None = None,
        to_ts: Time | None = None,
        *,
        reverse: bool = False,
        on_expired: OnExpired = "none",
    ) -> list[R]:
        """Return the versions that were valid at some time in ``[from_ts, to_ts]``, oldest first.

        Both ends are inclusive. If an end is None, the range has no limit at this end. Tombstones
        are not returned.

        Raises
        ------
        ValueError
            ``from_ts`` lies after ``to_ts``.
        """
        lo = None if from_ts is None else to_millis(from_ts)
        hi = None if to_ts is None else to_millis(to_ts)
        if lo is not None and hi is not None and lo > hi:
            raise ValueError(f"from_ts {lo} lies after to_ts {hi}")
        if hi is not None:
            self._check_expired(hi, on_expired)
        versions = self.table.history(self._raw_key(key), lo, hi, reverse=reverse)
        return [cast("R", self._record(version, key)) for version in versions]

    def range(
        self,
        lo: K | None,
        hi: K | None,
        as_of: Time | None = None,
        *,
        reverse: bool = False,
        on_expired: OnExpired = "none",
    ) -> Scan[K, R]:
        """Return the keys ``lo <= key <= hi`` with the latest versions, or those at ``as_of``."""
        first = None if lo is None else self._raw_key(lo)
        last = None if hi is None else self._raw_key(hi)
        bounds = Bounds(first, None if last is None else last + b"\0", reverse)
        millis = self._as_of(as_of, on_expired)
        chunks = (
            self.table.scan_latest(bounds)
            if millis is None
            else self.table.scan_as_of(bounds, millis)
        )
        return Scan(self.table.rows.rows, chunks, self._item, self._table_of)

    def all(
        self, as_of: Time | None = None, *, reverse: bool = False, on_expired: OnExpired = "none"
    ) -> Scan[K, R]:
        """Return all keys with their latest versions, or with the versions valid at ``as_of``."""
        return self.range(None, None, as_of, reverse=reverse, on_expired=on_expired)

    def _as_of(self, as_of: Time | None, on_expired: OnExpired) -> int | None:
        if as_of is None:
            return None
        millis = to_millis(as_of)
        self._check_expired(millis, on_expired)
        return millis

    def _check_expired(self, millis: int, on_expired: OnExpired) -> None:
        if on_expired == "none":
            return
        check_choice("on_expired", on_expired, get_args(OnExpired))
        if self.table.expired(millis):
            raise RetentionExceededError(
                f"{millis} lies before {self.clock.horizon}, the start of the history of the store "
                f"{self.name!r} (the stream time {self.clock.observed} minus the retention of "
                f"{self.clock.retention_ms} ms). Pass a time of {self.clock.horizon} or later, or "
                "set a longer retention"
            )

    def _change(self, row: bytes, raw: bytes) -> tuple[K, R] | None:
        version = self.table.latest_of(row, raw)
        return None if version is None else cast("tuple[K, R]", self._item(row[8:], version))

    def _record(self, version: Version | None, key: object) -> R | None:
        return None if version is None else cast("R | None", self._record_of(*version, key))


VersionedKeyValueStore: TypeAlias = VersionedStore[K, VersionedRecord[V]]
"""A versioned store (KIP-889)."""

VersionedKeyValueStoreWithHeaders: TypeAlias = VersionedStore[K, VersionedRecordWithHeaders[V]]
"""A versioned store whose versions have headers."""

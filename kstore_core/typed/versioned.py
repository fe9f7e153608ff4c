"""The versioned store. It returns the value of a key at any time in the retained history."""

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
from kstore_core.typed.store import Store, StoreContext
from kstore_core.typed.values import VersionedValues, values_of
from kstore_core.types import (
    NOT_PUT,
    RecordContext,
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
"""The outcome of a read before the retained history: Kafka's answer, or an error."""

_MAX_TIME = 2**63 - 1


class VersionedStore(Store[K], Generic[K, R]):
    """A versioned key-value store. ``R`` is the type of the records that its reads return.

    A version is valid from its timestamp, inclusive, until the timestamp of the next version or
    tombstone, exclusive. A write is dropped if its timestamp is before stream time minus the
    retention. Times are ints (ms) or aware datetimes. The time of a write must not be negative.

    The argument ``on_expired`` of a read decides what happens if the time of the read is before the
    retained history. With ``"none"``, as in Kafka Streams, the read returns the latest version if
    this version is old enough, and otherwise None. With ``"raise"`` it raises
    RetentionExceededError.

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
        turn = self.clock.turn  # the lock of a write, which reads before it writes
        self._take_turn, self._end_turn = turn.acquire, turn.release
        values = cast("VersionedValues", values_of(spec, context.current_record))
        self._encoder = values
        self._raw_key = values.raw_key
        self._row = values.row
        self._record_of = values.record
        self._item = values.item
        self._table_of = values.table
        self.parts = StoreParts(repr(self), spec, context, table, values, self.clock)

    def put(self, key: K, value: Any, *, timestamp: Time | None = None, headers: Any = None) -> int:
        """Put the version of ``key`` that begins at ``timestamp``; None is a tombstone.

        Parameters
        ----------
        timestamp : int or datetime, optional
            By default the input record's.
        headers : Headers or iterable of (str, bytes or None), optional
            Stored with the version, in a store with headers. By default the input record's, or
            none; ``()`` for none.

        Returns
        -------
        int
            The end of the new version (ms), which is the timestamp of the next version. LATEST (-1)
            if there is no next version. NOT_PUT (-2**63) if the version was late and was dropped.

        Raises
        ------
        TypeError
            ``key`` is None; a timestamp is missing; headers are given to a store without headers.
        ValueError
            The timestamp is negative, or beyond 64 bits.
        StateError
            The record of ``state.record(…)`` has ended in the task that started this one.
        """
        record = self._record_now()
        millis = (
            timestamp
            if type(timestamp) is int and 0 <= timestamp <= _MAX_TIME
            else _version_time(timestamp, record)
        )
        raw_key, raw = self._row(key, value, None, headers)
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            code = self._put(raw_key, raw, millis) if self.clock.accepts(millis) else NOT_PUT
        finally:
            self._end_turn()
        if record is not None:
            self._touch(record)
        return code

    def put_many(self, keys: Any, values: Any, timestamps: Any = None, headers: Any = None) -> None:
        """Put many rows at once. The result is the same as that of one put per row, in their order.

        Parameters
        ----------
        keys, values : Arrow arrays, or sequences
            A null value deletes. Arrow arrays of types that built-in serdes take are encoded
            without an object for each row.
        timestamps : Arrow array of int64 (ms) or of timestamps, or sequence, optional
            The begin of each version. By default the input record's.
        headers : Arrow array of list<struct<key: string, value: binary>>, or sequence, optional
            By default the input record's, or none.

        Raises
        ------
        ValueError, TypeError
            The columns differ in length, a key or timestamp is missing, or a value has a type that
            the serde or the format does not take. Nothing was put.
        UncommittedLimitError, StorageFullError
            As for :meth:`put`. Rows are staged in chunks of 16,384. The chunks before the error
            are staged.
        """
        record = self._record_now()
        if timestamps is None:
            times = [_version_time(None, record)] * len(keys)
        else:
            times = times_of(timestamps, "timestamps", len(keys))
        for millis in times:
            if not 0 <= millis <= _MAX_TIME:
                _version_time(millis, record)  # raises
        chunks = encoded(self._encoder, keys, values, None, headers)
        for first, raw_keys, raws in chunks:
            if not self._take_turn(False):
                self._wait_for_turn()
            try:
                for raw_key, raw, millis in zip(raw_keys, raws, times[first:], strict=False):
                    if self.clock.accepts(millis):
                        self._put(raw_key, raw, millis)
            finally:
                self._end_turn()
        if record is not None and len(keys):
            self._touch(record)

    def put_arrow(self, table: pa.Table | pa.RecordBatch) -> None:
        """Put the versions of a table with the columns of :meth:`Scan.to_arrow`.

        Parameters
        ----------
        table : pyarrow.Table or pyarrow.RecordBatch
            The columns ``key``, ``value`` and ``timestamp``, and ``headers`` if the format has
            them. A column ``valid_to`` is ignored.

        Raises
        ------
        SpecError
            A column is missing or unknown. Nothing was put.
        ValueError, TypeError, UncommittedLimitError, StorageFullError
            As for :meth:`put_many`.
        """
        found = columns_of(table, columns_of_format(self.spec), ("valid_to",), self.name)
        self.put_many(found["key"], found["value"], found.get("timestamp"), found.get("headers"))

    def delete(self, key: K, *, timestamp: Time | None = None) -> R | None:
        """Put a tombstone. Return the record that was valid at ``timestamp`` before, or None.

        A late delete does nothing and returns None. The default timestamp is the input record's.
        """
        record = self._record_now()
        millis = _version_time(timestamp, record)
        raw_key = self._raw_key(key)
        if not self._take_turn(False):
            self._wait_for_turn()
        try:
            if not self.clock.accepts(millis):
                return None
            old = self._record(self.table.get_as_of(raw_key, millis), key)
            self._put(raw_key, None, millis)
        finally:
            self._end_turn()
        if record is not None:
            self._touch(record)
        return old

    def _wait_for_turn(self) -> None:
        self.table.get(b"")  # raises in a fork, where the lock may never be released
        self._take_turn()

    def _put(self, raw_key: bytes, raw: bytes | None, millis: int) -> int:
        clock = self.clock
        observed = clock.observed
        clock.advance(millis)
        try:
            return self.table.put(raw_key, raw, millis)
        except BaseException:
            clock.rewind(observed)
            raise

    def get(self, key: K, as_of: Time | None = None, *, on_expired: OnExpired = "none") -> R | None:
        """Return the latest version, or the version valid at ``as_of``. None if there is none."""
        raw_key = self._raw_key(key)
        if as_of is None:
            return self._record(self.table.get(raw_key), key)
        millis = (
            as_of if type(as_of) is int and -_MAX_TIME <= as_of <= _MAX_TIME else to_millis(as_of)
        )
        self._check_expired(millis, on_expired)
        return self._record(self.table.get_as_of(raw_key, millis), key)

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

        Both ends are inclusive. If an end is None, the range is open at this end. Tombstones are
        not returned.

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
        """Return the keys ``lo <= key <= hi`` with their versions, the latest or as of a time."""
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
        """Return all keys and their versions, the latest or as of a time."""
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
                f"{millis} lies before {self.clock.horizon}, where the history of store "
                f"{self.name!r} begins: stream time {self.clock.observed} minus the retention of "
                f"{self.clock.retention_ms} ms. Read at a later time, or set a longer retention"
            )

    def _change(self, row: bytes, raw: bytes) -> tuple[K, R] | None:
        version = self.table.latest_of(row, raw)
        return None if version is None else cast("tuple[K, R]", self._item(row[8:], version))

    def _record(self, version: Version | None, key: object) -> R | None:
        return None if version is None else cast("R | None", self._record_of(*version, key))


def _version_time(timestamp: Time | None, record: RecordContext | None) -> int:
    if timestamp is None:
        timestamp = None if record is None else record.timestamp
        if timestamp is None:
            raise TypeError(
                "a timestamp is missing: pass timestamp=…, or write within state.record(…) of a "
                "record that has one"
            )
    millis = timestamp if type(timestamp) is int else to_millis(timestamp)
    if not 0 <= millis <= _MAX_TIME:
        raise ValueError(
            f"a version's timestamp is {millis}; it must not be negative and must fit 64 bits"
        )
    return millis


VersionedKeyValueStore: TypeAlias = VersionedStore[K, VersionedRecord[V]]
"""A versioned store (KIP-889)."""

VersionedKeyValueStoreWithHeaders: TypeAlias = VersionedStore[K, VersionedRecordWithHeaders[V]]
"""A versioned store whose versions keep their headers."""

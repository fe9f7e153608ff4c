"""The restore of rows from the records of a log, for key-value, window and session stores."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from kstore_core.changelog.rows import from_log, packed_from_log
from kstore_core.clock import segment_id
from kstore_core.codec import RecordColumns, latest_records
from kstore_core.errors import FormatError, SpecError
from kstore_core.keys import KeySchema, rows_of
from kstore_core.offsets.entries import Partition
from kstore_core.restore.ahead import made_ahead
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import NamespaceTable, Table, Write

if TYPE_CHECKING:
    from kstore_core.engine.packed import PackedBytes

__all__ = ["CHUNK_ROWS", "Restored", "RowRestorer", "is_empty"]

CHUNK_ROWS = 8192
"""The number of rows in one chunk of a bulk load."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore.

    Attributes
    ----------
    records : int
        The number of records that were read.
    late : int
        The number of these records that were skipped because they are older than the retention.
        In a window or session store, a record that a later record supersedes does not count.
    rows : int
        The number of rows that were written to the engine or staged in memory. A record whose row
        is written later counts as one row.
    offsets : mapping or None
        For each input partition, the exact last offset whose record the rows contain; None if
        these offsets are not known. A process that takes over the task must resume its input after
        these offsets.
    """

    records: int = 0
    late: int = 0
    rows: int = 0
    offsets: Mapping[Partition, int] | None = None

    def __add__(self, other: Restored) -> Restored:
        return Restored(
            self.records + other.records,
            self.late + other.late,
            self.rows + other.rows,
            other.offsets,
        )


def is_empty(table: Table) -> bool:
    """Return True if a table has no rows. A table with staged rows counts as not empty."""
    # If rows are staged, a lookup of the first row would sort all staged rows in each batch.
    return not table.rows.is_staging and table.first(None, None) is None


class RowRestorer:
    """A writer of restored rows. For each key, the last record determines the row.

    Parameters
    ----------
    spec : StoreSpec
    table : Table
        The store's table. For a window or session store it must be a table of segments.
    clock : StreamClock or None
        The stream time of a window or session store; None for a key-value store.

    Attributes
    ----------
    is_empty : bool
        True if the table has no rows.
    """

    def __init__(self, spec: StoreSpec, table: Any, clock: StreamClock | None) -> None:
        self._table = table
        self._clock = clock
        self._format = spec.format
        self._schema: KeySchema | None = None
        self._refuses_numbers = spec.shape == "window" and not spec.retain_duplicates
        self._name = spec.name
        if clock is not None:
            self._log_schema = rows_of(spec.shape, time_ordered=False).schema
            self._schema = rows_of(spec.shape, time_ordered=spec.time_ordered).schema
        self._interval = spec.segment_interval_ms or 1
        self.is_empty = is_empty(table)

    def put(self, records: RecordColumns) -> Restored:
        """Stage the rows of the next records of the log.

        Raises
        ------
        FormatError
            A record has no key, or its key is not the key of a window or session. The error has
            the record's offset. None of these records was written.
        SpecError
            The log belongs to a window store that retains duplicates, but this store does not
            retain duplicates.
        """
        keys, rows, late = self._rows_of(records)
        if type(self._table) is NamespaceTable:  # This path needs no Python object for each row.
            self._table.rows.put_columns(keys, rows)
        else:
            self._table.write(map(Write, keys, rows))
        return Restored(len(records), late, len(keys))

    def load(self, records: RecordColumns) -> Restored:
        """Write the rows of records to the engine without staging. Only deletes are staged.

        The table must have no staged rows.

        Raises
        ------
        FormatError, SpecError
            The records are not valid; see `put`.
        """
        if self._clock is None:
            return self._load_packed(records)
        keys, rows, late = self._rows_of(records)
        values = cast("list[bytes]", rows)
        if None in rows:
            gone = [key for key, row in zip(keys, rows, strict=True) if row is None]
            keys = [key for key, row in zip(keys, rows, strict=True) if row is not None]
            values = [row for row in rows if row is not None]
            if not self.is_empty:
                self._table.write(Write(key, None) for key in gone)
        if keys:
            self._table.load(
                (keys[start : start + CHUNK_ROWS], values[start : start + CHUNK_ROWS])
                for start in range(0, len(keys), CHUNK_ROWS)
            )
            self.is_empty = False
        return Restored(len(records), late, len(rows))

    def _load_packed(self, records: RecordColumns) -> Restored:
        """Load the rows of a key-value store, without a Python object for each row."""
        gone: list[bytes] = []

        def chunks() -> Generator[tuple[PackedBytes, PackedBytes], None, None]:
            for keys, rows, deleted in packed_from_log(self._format, latest, CHUNK_ROWS):
                gone.extend(deleted)
                if keys:
                    yield keys, rows

        latest = latest_records(records)
        rows = chunks() if len(latest) <= CHUNK_ROWS else made_ahead(chunks())
        with closing(rows):
            loaded = self._table.load(rows)
        if not self.is_empty:
            self._table.write(Write(key, None) for key in gone)
        self.is_empty = self.is_empty and not loaded
        return Restored(len(records), 0, len(latest))

    def _rows_of(self, records: RecordColumns) -> tuple[list[bytes], list[bytes | None], int]:
        """Return the keys and values of rows in the table's order, and the number of late rows.

        The value of a delete is None.
        """
        if self._refuses_numbers:
            self._refuse_number(records)
        try:
            keys, rows = from_log(self._format, latest_records(records), schema=self._schema)
            if self._clock is None or self._schema is None:
                return keys, rows, 0
            return self._in_time(keys, rows, self._clock, self._schema)
        except FormatError:
            self._refuse_keys(records)
            raise

    def _refuse_number(self, records: RecordColumns) -> None:
        """Raise SpecError if the key of the first record has a sequence number above 0."""
        key = next(iter(records.keys), None)
        if key is None:
            return
        with suppress(FormatError):  # The caller reports a bad key with its offset.
            if self._log_schema.split(key)[2] > 0:
                raise SpecError(
                    f"the record at offset {records.offsets[0]} of the log has a sequence number, "
                    "so a store that retains duplicates wrote the log, but the store "
                    f"{self._name!r} does not retain duplicates. Pass retain_duplicates=True, or "
                    "--retain-duplicates on the command line"
                )

    def _refuse_keys(self, records: RecordColumns) -> None:
        """Raise FormatError with the offset of the first record that has an invalid key."""
        if self._schema is None:
            return
        for offset, key in zip(records.offsets, records.keys, strict=True):
            try:
                if key is not None:
                    self._log_schema.segment_time(key)
            except FormatError as error:
                raise FormatError(f"offset {offset}: {error}", offset=error.offset) from None

    def _in_time(
        self, keys: list[bytes], rows: list[bytes | None], clock: StreamClock, schema: KeySchema
    ) -> tuple[list[bytes], list[bytes | None], int]:
        """Advance stream time by the rows, and return the rows of live segments.

        The rows are sorted by segment. The last result is the number of rows in expired segments.
        """
        times = list(map(schema.segment_time, keys))
        if times:
            clock.advance(max(times))
        interval = self._interval
        first_live = segment_id(clock.horizon, interval)
        self._table.expire(first_live)
        live = [
            (number, at)
            for at, number in enumerate(segment_id(time, interval) for time in times)
            if number >= first_live
        ]
        # The records are sorted by the user's keys, but rows of time-ordered stores by time.
        if schema.prefix >= 0:
            live.sort(key=lambda row: (row[0], keys[row[1]]))
        else:
            live.sort()
        order = list(map(itemgetter(1), live))
        return (
            list(map(keys.__getitem__, order)),
            list(map(rows.__getitem__, order)),
            len(keys) - len(order),
        )

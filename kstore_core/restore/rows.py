"""Records of a log as rows of a key-value, window or session store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from kstore_core.changelog.rows import from_log
from kstore_core.clock import StreamClock, segment_id
from kstore_core.codec import RecordColumns, latest_records
from kstore_core.errors import FormatError, SpecError
from kstore_core.keys import KeySchema, rows_of
from kstore_core.offsets.entries import Partition
from kstore_core.spec import StoreSpec
from kstore_core.tables import NamespaceTable, Table, Write

__all__ = ["CHUNK_ROWS", "Restored", "RowRestorer", "is_empty"]

CHUNK_ROWS = 8192
"""The rows of one chunk of a bulk load."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore.

    Attributes
    ----------
    records : int
        The number of records given.
    late : int
        The number of records left out, as too late for the store's history.
    rows : int
        The number of physical rows written.
    offsets : mapping or None
        The last offset of each input partition that the rows contain, exactly. A takeover resumes
        after them. None if they are not known.
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
    # A look at the first row would sort all staged rows, once for each batch of a restore.
    return not table.rows.is_staging and table.first(None, None) is None


class RowRestorer:
    """Restores rows: the last record of a key wins.

    Parameters
    ----------
    spec : StoreSpec
    table : Table
        A table in segments for a window or session store.
    clock : StreamClock or None
        The clock of a window or session store.

    Attributes
    ----------
    is_empty : bool
        The table holds no rows.
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
        """Write the next records of the log through staging.

        Raises
        ------
        FormatError
            A record has no key, or its key is not of a window or session; the error names its
            offset. Nothing was written.
        SpecError
            The log is of a window store that retains duplicates, and this store does not.
        """
        keys, rows, late = self._rows_of(records)
        if type(self._table) is NamespaceTable:  # without an object for each row
            self._table.rows.put_many(dict(zip(keys, rows, strict=True)))
        else:
            self._table.write(map(Write, keys, rows))
        return Restored(len(records), late, len(keys))

    def load(self, records: RecordColumns) -> Restored:
        """Load records without the staging, which must be empty; only deletes are staged.

        Raises
        ------
        FormatError
            See `put`.
        """
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

    def _rows_of(self, records: RecordColumns) -> tuple[list[bytes], list[bytes | None], int]:
        """Keys and rows in the table's order, deletes included; and the number of late rows."""
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
        """Raise SpecError if the first record has the number of a store with duplicates."""
        key = next(iter(records.keys), None)
        if key is None:
            return
        with suppress(FormatError):  # reported with its offset below
            if self._log_schema.split(key)[2] > 0:
                raise SpecError(
                    f"the record at offset {records.offsets[0]} of the log has a sequence number, "
                    f"as in "
                    f"a store that retains duplicates; the store {self._name!r} retains none: pass "
                    "retain_duplicates=True, or --retain-duplicates on the command line"
                )

    def _refuse_keys(self, records: RecordColumns) -> None:
        """Raise FormatError for the first record with an invalid key, naming its offset."""
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
        """The rows of the segments that are then live, by segment; and the count of others."""
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
        if schema.prefix >= 0:  # the log is in the order of the user's keys, and the rows are not
            live.sort(key=lambda row: (row[0], keys[row[1]]))
        else:
            live.sort()
        order = list(map(itemgetter(1), live))
        return (
            list(map(keys.__getitem__, order)),
            list(map(rows.__getitem__, order)),
            len(keys) - len(order),
        )

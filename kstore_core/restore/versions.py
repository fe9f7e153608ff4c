"""Records of a log as versions of a versioned store.

For an empty store, all versions of a key are collected and its rows are made at once. For a store
with rows, the versions are put one by one. The result is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from kstore_core.changelog.rows import row_layout
from kstore_core.clock import segment_id
from kstore_core.codec import (
    RecordColumns,
    build_version_rows,
    latest_records,
    log_to_arrow,
    log_to_rows,
    records_in_time,
    split_by_key,
)
from kstore_core.errors import SpecError
from kstore_core.restore.rows import CHUNK_ROWS, Restored, is_empty
from kstore_core.restore.spool import SpooledParts, in_chunks, weight
from kstore_core.spec import StoreSpec
from kstore_core.tables.versioned import VersionedTable

__all__ = ["VersionRestorer"]


class VersionRestorer:
    """Restores versions; the clock is the table's.

    Parameters
    ----------
    spec : StoreSpec
    table : VersionedTable
    max_bytes : int
        The weight of the records in one batch.
    """

    def __init__(self, spec: StoreSpec, table: VersionedTable, max_bytes: int) -> None:
        self._table = table
        self._layout = row_layout(spec.format)
        self._max_bytes = max_bytes

    @property
    def is_empty(self) -> bool:
        """True if the store has no rows and Arrow is installed, so rows can be made at once."""
        return is_empty(self._table.rows) and find_spec("pyarrow") is not None

    def put(self, records: RecordColumns) -> Restored:
        """Put records one by one, through the staging.

        Raises
        ------
        SpecError
            A version is before 1970. None of these records was written.
        FormatError
            A record has no key. None of these records was written.
        """
        clock, put = self._table.clock, self._table.put
        kept, _ = self._in_time(records)
        keys, values = log_to_rows(kept, self._layout)
        for key, value, timestamp in zip(keys, values, kept.timestamps, strict=True):
            clock.advance(timestamp)
            put(key, value, timestamp)
        return Restored(len(records), len(records) - len(kept), len(kept))

    def load(self, batches: Iterable[RecordColumns], count: int, scratch: Path) -> Restored:
        """Load all records of a log into the empty table, past the staging.

        Parameters
        ----------
        batches : iterable of RecordColumns
        count : int
            The approximate number of records.
        scratch : Path
            A temporary folder for records that do not fit into memory.

        Raises
        ------
        SpecError, FormatError
            See `put`. Rows may have been written.
        """
        clock = self._table.clock
        observed = clock.observed
        restored = Restored()
        chunks = (records for records, _ in in_chunks(batches, self._max_bytes))
        first = next(chunks, RecordColumns())
        kept, stream_time = self._in_time(first)
        restored += Restored(len(first), len(first) - len(kept))
        clock.advance(stream_time)
        try:
            second = next(chunks, None)
            if second is None:
                return restored + Restored(rows=self._load(kept))
            pieces = -(-count // len(first)) + 1
            with SpooledParts(scratch, pieces, self._max_bytes) as parts:
                parts.add(kept)
                for records in itertools.chain([second], chunks):
                    kept, stream_time = self._in_time(records)
                    clock.advance(stream_time)
                    parts.add(kept)
                    restored += Restored(len(records), len(records) - len(kept))
                del first, second, records, kept  # the parts need the memory
                for part in parts:
                    restored += Restored(rows=self._load(part))
        except BaseException:
            clock.rewind(observed)
            raise
        return restored

    def load_at_once(self, records: RecordColumns) -> Restored:
        """Load records that are in memory."""
        kept, stream_time = self._in_time(records)
        self._table.clock.advance(stream_time)
        pieces = weight(kept) // self._max_bytes + 1
        parts = split_by_key(kept, pieces, 0) if pieces > 1 else [kept]
        rows = sum(map(self._load, parts))
        return Restored(len(records), len(records) - len(kept), rows)

    def _load(self, records: RecordColumns) -> int:
        """Load all versions of some keys; returns the number of rows."""
        clock, interval = self._table.clock, self._table.segment_interval_ms
        versions = latest_records(records, by_timestamp=True)
        keys, values, times = log_to_arrow(versions, self._layout)
        del versions, records
        row_keys, rows = build_version_rows(
            keys,
            times,
            values,
            segment_interval_ms=interval,
            first_live_segment=segment_id(clock.horizon, interval),
        )
        del keys, values, times
        self._table.load(
            (
                row_keys[start : start + CHUNK_ROWS].to_pylist(),
                rows[start : start + CHUNK_ROWS].to_pylist(),
            )
            for start in range(0, len(row_keys), CHUNK_ROWS)
        )
        return len(row_keys)

    def _in_time(self, records: RecordColumns) -> tuple[RecordColumns, int]:
        clock = self._table.clock
        kept, stream_time = records_in_time(records, clock.observed, clock.retention_ms)
        earliest = min(kept.timestamps, default=0)
        if earliest < 0:
            raise SpecError(f"a versioned store cannot hold the time {earliest} ms, before 1970")
        return kept, stream_time

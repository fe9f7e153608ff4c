"""The restore of a versioned store from the records of a log.

If the store is empty, all versions of a key are collected, and then the rows of the key are built.
If the store has rows or pyarrow is missing, the versions are put one after another. The versions in
the store are the same in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
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
from kstore_core.restore.spool import Gathered, weight
from kstore_core.spec import StoreSpec
from kstore_core.tables.versioned import VersionedTable

__all__ = ["VersionRestorer"]


class VersionRestorer:
    """A writer of restored versions, which advances the stream time of its table.

    Parameters
    ----------
    spec : StoreSpec
    table : VersionedTable
    max_bytes : int
        The approximate memory in bytes of the records in one batch.
    """

    def __init__(self, spec: StoreSpec, table: VersionedTable, max_bytes: int) -> None:
        self._table = table
        self._layout = row_layout(spec.format)
        self._max_bytes = max_bytes

    @property
    def is_empty(self) -> bool:
        """True if the store has no rows and pyarrow is installed. `load` requires both."""
        return is_empty(self._table.rows) and find_spec("pyarrow") is not None

    def put(self, records: RecordColumns) -> Restored:
        """Stage the versions of records one by one.

        Raises
        ------
        SpecError
            A version has a time before 1970. None of these records was written.
        FormatError
            A record has no key. None of these records was written.
        """
        clock, put = self._table.clock, self._table.put
        self._table.rows.write(())  # On a read-only table, this raises before stream time advances.
        kept, _ = self._in_time(records)
        keys, values = log_to_rows(kept, self._layout)
        for key, value, timestamp in zip(keys, values, kept.timestamps, strict=True):
            clock.advance(timestamp)
            put(key, value, timestamp)
        return Restored(len(records), len(records) - len(kept), len(kept))

    def load(self, batches: Iterable[RecordColumns], count: int, scratch: Path) -> Restored:
        """Write all records of a log to the empty table, without staging.

        Parameters
        ----------
        batches : iterable of RecordColumns
        count : int
            The approximate number of records.
        scratch : Path
            The path of a temporary folder for records that do not fit into memory.

        Raises
        ------
        SpecError, FormatError
            A record is not valid; see `put`. Rows of other records may have been written.
        """
        clock = self._table.clock
        observed = clock.observed
        restored = Restored()
        try:
            with closing(Gathered(scratch, self._max_bytes, count)) as gathered:
                for records in batches:
                    kept = self.advance(records)
                    gathered.add(kept)
                    restored += Restored(len(records), len(records) - len(kept))
                return restored + Restored(rows=self.build(gathered))
        except BaseException:
            clock.rewind(observed)
            raise

    def load_at_once(self, records: RecordColumns) -> Restored:
        """Write all records of a log to the empty table, without staging or temporary files."""
        kept = self.advance(records)
        pieces = weight(kept) // self._max_bytes + 1
        rows = self.build(split_by_key(kept, pieces, 0) if pieces > 1 else [kept])
        return Restored(len(records), len(records) - len(kept), rows)

    def advance(self, records: RecordColumns) -> RecordColumns:
        """Advance stream time by the records. Return the records that are not late.

        Raises
        ------
        SpecError
            A version has a time before 1970. Stream time has not changed.
        """
        kept, stream_time = self._in_time(records)
        self._table.clock.advance(stream_time)
        return kept

    def build(self, parts: Iterable[RecordColumns]) -> int:
        """Write the rows of all versions to the empty table. Return the number of rows.

        Each part must contain all versions of its keys, as :meth:`advance` returned them.
        """
        return sum(map(self._load, parts))

    def _load(self, records: RecordColumns) -> int:
        """Write the rows of some keys from all their versions. Return the number of rows."""
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
        earliest = kept.earliest
        if earliest is not None and earliest < 0:
            raise SpecError(
                f"a record has the time {earliest} ms, but a versioned store cannot store a time "
                "before 1970; give the record a timestamp of 0 or more"
            )
        return kept, stream_time

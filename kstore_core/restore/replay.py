"""The restore of a store from its changelog. Each batch of records is committed with its offset."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kstore_core.changelog import Changelog
from kstore_core.changelog.marks import Commit
from kstore_core.changelog.whole import WholeCommits
from kstore_core.codec import RecordColumns
from kstore_core.errors import FormatError, InconsistentStateError, SpecError
from kstore_core.offsets.position import LoggedPositions
from kstore_core.restore.rows import Restored, RowRestorer
from kstore_core.restore.spool import in_chunks
from kstore_core.restore.versions import VersionRestorer
from kstore_core.spec import StoreSpec
from kstore_core.stream_clock import StreamClock
from kstore_core.tables.versioned import VersionedTable

__all__ = ["RestoreListener", "RestoreProgress", "first_offset", "restore_log"]

_log = logging.getLogger("kstore_core")

BATCH_BYTES = 72 * 1024 * 1024
"""The approximate memory in bytes of the records in one batch.

The peak memory of a restore is a few times as large.
"""

BUILD_BYTES = 36 * 1024 * 1024
"""The limit in place of `BATCH_BYTES` if rows are built from all versions of a key.

This limit is smaller, because the build of the rows needs more copies of the records.
"""

PUT_BYTES = 3 * 1024 * 1024
"""The limit in place of `BATCH_BYTES` if versions are put one by one.

This limit is smaller, because each put rewrites a row that is larger than the version.
"""

UNKNOWN_OFFSET = -4
"""The number that Kafka Streams stores for an unknown offset."""


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The progress of a restore.

    Attributes
    ----------
    store, topic : str
    partition : int
    begin : int
        The first offset that the restore reads.
    next_offset : int
        The offset after the last record that was read so far.
    end : int
        The offset after the last record that the restore will read.
    records : int
        The number of records that were read so far.
    """

    store: str
    topic: str
    partition: int
    begin: int
    next_offset: int
    end: int
    records: int


RestoreListener = Callable[[RestoreProgress], object]
"""The type of a callback that a restore calls at its start and after each batch that it read."""


def first_offset(stored: int | None, log: Changelog, store: str) -> int:
    """Return the first offset of a log that a restore must read.

    Parameters
    ----------
    stored : int or None
        The last offset of the log that the store contains; None or -4 if this offset is not known.
    log : Changelog
    store : str
        The store's name, for error messages.

    Raises
    ------
    InconsistentStateError
        The log begins after the next record that the store needs, or ends before `stored`. The log
        was not changed.
    CorruptionError
        The log's first file is missing.
    """
    rest = getattr(log, "rest", None)  # Only a log in files may have bytes after its end.
    if stored is None or stored == UNKNOWN_OFFSET:
        if rest is not None and rest.kind == "zeros":
            _log.warning(
                "the changelog %s-%s ends at offset %d, followed by %s. The changelog may have "
                "lost its last records",
                *(log.topic, log.partition, log.high_watermark, rest),
            )
        return log.start_offset
    where = (
        f"the store {store!r} contains the changelog {log.topic}-{log.partition} up to offset "
        f"{stored}"
    )
    if stored + 1 < log.start_offset:
        raise InconsistentStateError(
            f"{where}, but the log begins at offset {log.start_offset}. The records in between "
            "have expired, so the store cannot be brought up to date. Move the store's directory "
            "away and open the store again: kstore then restores the store from the records that "
            "the log has"
        )
    if stored + 1 > log.high_watermark:
        after = f", followed by {rest}" if rest else ""
        last = log.high_watermark - 1
        raise InconsistentStateError(
            f"{where}, but the last offset of the log is {last}{after}. Either the "
            "log belongs to another store, or it has lost its last records. Nothing was changed. "
            "Put back the log that the store was written with. Or move the store's directory away "
            "and open the store again: kstore then restores the store from this log"
        )
    return stored + 1


def restore_log(
    spec: StoreSpec,
    table: Any,
    clock: StreamClock | None,
    stored: int | None,
    log: Changelog,
    commit: Callable[[int, Mapping[str, Mapping[int, int]], Commit | None], None],
    *,
    scratch: Path,
    listener: RestoreListener | None = None,
) -> tuple[Restored, int | None]:
    """Restore from a changelog the records that a table lacks, up to the last finished commit.

    Parameters
    ----------
    spec : StoreSpec
    table : Table
        The table of the store's rows. It must have no staged rows, and must not log its writes.
    clock : StreamClock or None
        The store's stream time; None for a key-value store.
    stored : int or None
        The last offset of the log that the table contains; None or -4 if this offset is not known.
    log : Changelog
    commit : callable
        A function that commits the staged rows, called as ``commit(offset, position, mark)``.
        ``offset`` is the last offset that the rows then contain, ``position`` is the position from
        the headers of the records, and ``mark`` is the log's commit marker or None.
    scratch : Path
        The path of a temporary folder for records that do not fit into memory.
    listener : callable, optional

    Returns
    -------
    Restored
    int or None
        The first offset of the unfinished commit at the log's end. The restore skipped its records.
        None if no records were skipped.

    Raises
    ------
    InconsistentStateError
        The log does not continue the store; see :func:`first_offset`.
    SpecError
        The log has records that this kind of store cannot have.
    FormatError, CorruptionError
        A record or the log is damaged. Batches before the damage were restored and committed,
        except in a versioned store that was empty.
    """
    begin, end = first_offset(stored, log, spec.name), log.high_watermark
    is_known = stored is not None and stored != UNKNOWN_OFFSET
    whole = WholeCommits(log, begin, begin if is_known else 0)
    read, reported = 0, -1
    noted = LoggedPositions()

    def report(next_offset: int) -> None:
        nonlocal reported
        if listener is not None and next_offset != reported:
            reported = next_offset
            listener(
                RestoreProgress(spec.name, log.topic, log.partition, begin, next_offset, end, read)
            )

    def batches() -> Iterator[RecordColumns]:
        nonlocal read
        try:
            for batch in whole:
                noted.note(batch)
                yield batch
                read += len(batch)
                report(batch.next_offset)
        finally:
            noted.warn(f"{log.topic}-{log.partition}")

    restored = Restored()
    if begin >= end:
        return restored, None
    report(begin)
    versions: VersionRestorer | None = None
    if spec.shape == "versioned":
        assert clock is not None
        assert spec.segment_interval_ms is not None
        table = VersionedTable(table, spec.segment_interval_ms, clock)
        versions = VersionRestorer(spec, table, BUILD_BYTES)
    if versions is not None and versions.is_empty:
        with _naming_store(spec, log):
            restored = versions.load(batches(), end - begin, scratch)
    else:
        if versions is None:
            restore, batch_bytes = RowRestorer(spec, table, clock).load, BATCH_BYTES
        else:
            restore, batch_bytes = versions.put, PUT_BYTES
        # The last batch is committed together with the mark that follows it. If an offset after the
        # mark were committed without the mark's content, no later restore would read the mark.
        loaded: int | None = None
        try:
            for records, next_offset in in_chunks(batches(), batch_bytes):
                if loaded is not None:
                    commit(loaded - 1, noted.until(loaded), None)
                    loaded = None
                with _naming_store(spec, log):
                    restored += restore(records)
                loaded = next_offset
        except BaseException:
            if loaded is not None:
                commit(loaded - 1, noted.until(loaded), None)
            raise
    # The log may end with marks, or with records that a restore does not load.
    upto = max(whole.next_offset, end) if whole.left_out is None else whole.left_out
    if upto > begin:
        commit(upto - 1, noted.until(upto), whole.commit)
    report(upto)
    if whole.commit is not None:
        restored = replace(restored, offsets=whole.commit.offsets)
    return restored, whole.left_out


@contextlib.contextmanager
def _naming_store(spec: StoreSpec, log: Changelog) -> Iterator[None]:
    """Add the names of the log and the store to errors about records."""
    where = f"the changelog {log.topic}-{log.partition} has a record that cannot belong to the "
    where += f"{spec.shape} store {spec.name!r}"
    hint = (
        "Restore the store from its own log, or open the store with the spec of the store that "
        "wrote this log"
    )
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{where}: {error}. {hint}", offset=error.offset) from error
    except SpecError as error:
        raise SpecError(f"{where}: {error}. {hint}") from error

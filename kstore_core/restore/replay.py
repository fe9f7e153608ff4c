"""Restores of stores from their changelogs, batch by batch, each committed with its offset."""

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
from kstore_core.clock import StreamClock
from kstore_core.codec import RecordColumns
from kstore_core.errors import FormatError, InconsistentStateError, SpecError
from kstore_core.offsets.position import LoggedPositions
from kstore_core.restore.rows import Restored, RowRestorer
from kstore_core.restore.spool import in_chunks
from kstore_core.restore.versions import VersionRestorer
from kstore_core.spec import StoreSpec
from kstore_core.tables.versioned import VersionedTable

__all__ = ["RestoreListener", "RestoreProgress", "first_offset", "restore_log"]

_log = logging.getLogger("kstore_core")

BATCH_BYTES = 72 * 1024 * 1024
"""The weight of records in one batch. Peak memory is a few times that."""

BUILD_BYTES = 36 * 1024 * 1024
"""The same if rows are made of all versions of a key, which takes more copies."""

PUT_BYTES = 3 * 1024 * 1024
"""The same if versions are put one by one, which rewrites larger rows."""

UNKNOWN_OFFSET = -4
"""Kafka Streams' mark of an unknown offset."""


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """The progress of a restore.

    Attributes
    ----------
    store, topic : str
    partition : int
    begin : int
        The first offset of the restore.
    next_offset : int
        The offset after the last record that was read.
    end : int
        The offset after the last record to restore.
    records : int
        The number of records that were read.
    """

    store: str
    topic: str
    partition: int
    begin: int
    next_offset: int
    end: int
    records: int


RestoreListener = Callable[[RestoreProgress], object]
"""A callback for the start of a restore, and for each batch that was read."""


def first_offset(stored: int | None, log: Changelog, store: str) -> int:
    """Return the first offset to restore a store from.

    Parameters
    ----------
    stored : int or None
        The last offset that the store contains; None or -4 if it is not known.

    Raises
    ------
    InconsistentStateError
        The log begins after the offset or ends before it. The log was not changed.
    CorruptionError
        The log's first file is missing.
    """
    rest = getattr(log, "rest", None)  # a log in files may have bytes after its end
    if stored is None or stored == UNKNOWN_OFFSET:
        if rest is not None and rest.kind == "zeros":
            _log.warning(
                "%s-%s ends at offset %d, and behind it has %s. Nothing tells whether there were "
                "records",
                *(log.topic, log.partition, log.high_watermark, rest),
            )
        return log.start_offset
    where = f"the store {store!r} contains the changelog {log.topic}-{log.partition} up to {stored}"
    if stored + 1 < log.start_offset:
        raise InconsistentStateError(
            f"{where}, and the log begins at {log.start_offset}: the records in between have "
            f"expired, "
            "so the store cannot be brought up to date. Move the store's directory away and open "
            "it again: kstore then restores the store from the whole log"
        )
    if stored + 1 > log.high_watermark:
        behind = f", with {rest} behind it" if rest else ""
        raise InconsistentStateError(
            f"{where}, and the log ends at {log.high_watermark}{behind}: this is another log, or "
            f"the "
            "log has lost its end. Nothing was changed. Bring back the log that the store was "
            "written with. Or move the store's directory away and open it again: kstore then "
            "restores the store from this log"
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
    """Restore the records of a changelog after the stored offset, up to the end of a commit.

    Parameters
    ----------
    spec : StoreSpec
    table : Table
        The table of rows, with nothing staged; it must not log its writes.
    clock : StreamClock or None
    stored : int or None
        The last offset that the table contains.
    log : Changelog
    commit : callable
        Commits the staged rows: ``commit(offset, position, mark)``, with the last offset that the
        rows then contain, the position in the headers of the records, and the log's mark of the
        commit or None.
    scratch : Path
        A temporary folder for a log that does not fit into memory.
    listener : callable, optional

    Returns
    -------
    Restored
    int or None
        The first offset that was left out, because its commit never ended.

    Raises
    ------
    InconsistentStateError
        See :func:`first_offset`.
    SpecError
        The log has records that the store cannot have.
    FormatError, CorruptionError
        Records or the log are damaged. Batches before the damage are restored and committed.
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
        # The last batch is committed with the mark that follows it. An offset after the mark
        # without the mark's content would skip the mark for good.
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
    # The log may end with marks, or with records that are not the store's.
    upto = max(whole.next_offset, end) if whole.left_out is None else whole.left_out
    if upto > begin:
        commit(upto - 1, noted.until(upto), whole.commit)
    report(upto)
    if whole.commit is not None:
        restored = replace(restored, offsets=whole.commit.offsets)
    return restored, whole.left_out


@contextlib.contextmanager
def _naming_store(spec: StoreSpec, log: Changelog) -> Iterator[None]:
    """Add the log and the store to errors of records."""
    where = f"the changelog {log.topic}-{log.partition} has a record that is none of the "
    where += f"{spec.shape} store {spec.name!r}"
    hint = "Restore the store from its own log, or open it as what wrote this one"
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{where}: {error}. {hint}", offset=error.offset) from error
    except SpecError as error:
        raise SpecError(f"{where}: {error}. {hint}") from error

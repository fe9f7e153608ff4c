"""A store from its changelog: from which offset on, batch by batch, each with its offset."""

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
"""The weight of records that are restored at once. Peak memory is a few times that."""

BUILD_BYTES = 36 * 1024 * 1024
"""The same where rows are made of all versions of a key, of which more copies are needed."""

PUT_BYTES = 3 * 1024 * 1024
"""The same where versions are put one by one, which rewrites rows that are larger."""

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
        The offset from which on is restored.
    next_offset : int
        Records before it have been read.
    end : int
        The offset behind the last record that is to be restored.
    records : int
        How many have been read.
    """

    store: str
    topic: str
    partition: int
    begin: int
    next_offset: int
    end: int
    records: int


RestoreListener = Callable[[RestoreProgress], object]
"""A callback for the start of a restore, and for each batch that has been read."""


def first_offset(stored: int | None, log: Changelog, store: str) -> int:
    """The first offset to restore a store from.

    Parameters
    ----------
    stored : int or None
        The last offset that the store contains; None or -4 where that is not known.

    Raises
    ------
    InconsistentStateError
        The log does not reach back to it, or ends before it; nothing was cut off the log.
    CorruptionError
        The log's first file is missing.
    """
    rest = getattr(log, "rest", None)  # a log in files may have bytes behind its end
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
            f"{where}, and the log begins at {log.start_offset}: what lay between has expired, so "
            "the store cannot be brought up to date. Move its directory away and open it again: "
            "it is then restored from all that the log has"
        )
    if stored + 1 > log.high_watermark:
        behind = f", with {rest} behind it" if rest else ""
        raise InconsistentStateError(
            f"{where}, and the log ends at {log.high_watermark}{behind}: it is another log, or has "
            "lost its end. Nothing was changed. Bring back the log that the store was written "
            "with; or move the store's directory away, and it is restored as this log has it"
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
    """Restore what a changelog has beyond the stored offset, up to the end of a commit.

    Parameters
    ----------
    spec : StoreSpec
    table : Table
        Of rows, with nothing staged; it must not log itself.
    clock : StreamClock or None
    stored : int or None
        The last offset that the table contains.
    log : Changelog
    commit : callable
        Commits what is staged with an offset, the last one that is then contained, and moves the
        position on to another, that of those who wrote the records where these say it; with what
        the log says that the store then contains, where it does.
    scratch : Path
        A folder that is made for the time being where a log does not fit into memory.
    listener : callable, optional

    Returns
    -------
    Restored
    int or None
        The offset from which on records were left out, for their commit has not ended.

    Raises
    ------
    InconsistentStateError
        What :func:`first_offset` raises.
    SpecError
        The log has what such a store cannot hold.
    FormatError, CorruptionError
        Records or the log are damaged. Batches before that are restored, and committed.
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
        # The last piece is committed with what the log says behind it: an offset behind a mark
        # without that would have it never be read.
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
    # What the log ends with may be no records of its own, or marks.
    upto = max(whole.next_offset, end) if whole.left_out is None else whole.left_out
    if upto > begin:
        commit(upto - 1, noted.until(upto), whole.commit)
    report(upto)
    if whole.commit is not None:
        restored = replace(restored, offsets=whole.commit.offsets)
    return restored, whole.left_out


@contextlib.contextmanager
def _naming_store(spec: StoreSpec, log: Changelog) -> Iterator[None]:
    """Name the log and the store in errors of records."""
    where = f"the changelog {log.topic}-{log.partition} has a record that is none of the "
    where += f"{spec.shape} store {spec.name!r}"
    hint = "Restore the store from its own log, or open it as what wrote this one"
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{where}: {error}. {hint}", offset=error.offset) from error
    except SpecError as error:
        raise SpecError(f"{where}: {error}. {hint}") from error

"""The comparison of a store with a second store, which is restored from the store's changelog."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from kstore_core import changelog
from kstore_core.changelog.files.segment import heads, identity, list_segments
from kstore_core.changelog.whole import whole_end
from kstore_core.clock import segment_id
from kstore_core.codec import VersionedRecord, VersionedRecordWithHeaders
from kstore_core.engine import Chunk, Engine, Namespace
from kstore_core.hints import command
from kstore_core.keys import rows_of
from kstore_core.maintenance.verify.chains import version_rows
from kstore_core.maintenance.verify.findings import Counts, Severity
from kstore_core.maintenance.verify.rows import Fault
from kstore_core.serdes import BYTES
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.state import open_state
from kstore_core.system.scratch import Scratch
from kstore_core.tables import Bounds

__all__ = ["compare"]

_CHUNK = 1000

Difference = tuple[Severity, Fault, bytes | None]


def compare(
    engine: Engine, root: Path, stored: StoredSpec, log: Path
) -> Iterator[Difference | Counts]:
    """Restore the changelog of a store to a temporary directory, and compare the two stores.

    Yield each difference, and at intervals the number of compared records.

    Parameters
    ----------
    engine : Engine
        The engine of both stores.
    root : Path
        The state directory.
    stored : StoredSpec
        The spec of the store.
    log : Path
        The directory of the changelog's partition.
    """
    topic, _, partition = log.name.rpartition("-")
    spec = _of_bytes(stored)
    with (
        Scratch("verify") as scratch,
        changelog.FileChangelog(log.parent, topic, int(partition), read_only=True) as opened,
        open_state(root, engine=engine, read_only=True) as state,
    ):
        where = (topic, int(partition))
        contains = state.offsets(spec.name).get(where)
        before = _state_of(opened)
        end = opened.high_watermark - 1
        if contains is not None and contains < end:
            # A restore ignores the incomplete commit of a killed writer at the end of the log.
            end = whole_end(opened, contains) - 1
        if contains is None or contains != end:
            yield (*_elsewhere(spec.name, log, contains, end), None)
            return
        with open_state(scratch / root.name, engine=engine) as restored:
            restored.restore(spec, opened)
            if restored.offsets(spec.name).get(where, -1) < contains:
                why = (
                    "the writer was killed after a spill, so the store contains part of a commit, "
                    f"and the end of this commit is not in {log}. Open the store, commit once, and "
                    "compare again"
                )
                yield "note", Fault("compare", why), None
                return
            ours, theirs = state.open(spec), restored.open(spec)
            # Kafka Streams stores no stream time, and the log may lack the record with the latest
            # time. With an earlier stream time, reads return expired rows.
            for behind, ahead in ((state, theirs), (restored, ours)):
                if ahead.stream_time is not None:
                    behind._stores[spec.name].commits.advance(ahead.stream_time)
            for found in _differences(ours, theirs, opened):
                # A commit writes to the log before it writes to the store.
                if not isinstance(found, Counts) and _state_of(opened) != before:
                    why = (
                        f"a writer added records to {log} or compacted it during the comparison, "
                        "so the rest of the store was not compared. Stop the writer, and compare "
                        "again"
                    )
                    yield "note", Fault("compare", why), None
                    return
                yield found


def _elsewhere(store: str, log: Path, contains: int | None, end: int) -> tuple[Severity, Fault]:
    if contains is None:
        why = f"the store has no offset of {log}, so it cannot be compared with the log"
        return "note", Fault("compare", why)
    first = command("restore", "PATH", store, options=f"--from {shlex.quote(str(log))}")
    where = f"the store contains {log} up to offset {contains}, but the log's last offset is {end}"
    if contains < end:
        why = f"{where}. Before you compare, restore the rest of the log with: {first}"
        return "note", Fault("compare", why)
    return "corrupt", Fault(
        "compare", f"{where}. The log belongs to another store, or has lost its end"
    )


def _of_bytes(stored: StoredSpec) -> StoreSpec:
    """Return the spec of the store with the serde of bytes for its keys and values."""
    of_bytes = replace(stored, key=BYTES.name, value=BYTES.name)
    return of_bytes.spec()


def _state_of(log: changelog.FileChangelog) -> tuple[object, ...]:
    """Return a value that changes if a writer appends to the log, or compacts it."""
    files = [(segment, identity(segment)) for segment in list_segments(log.path)]
    return log.high_watermark, files


def _differences(
    store: Any, restored: Any, log: changelog.FileChangelog
) -> Iterator[Difference | Counts]:
    """Yield a finding for each record that differs, in key order, and counts of records."""
    count = removed = 0
    lacks_records: bool | None = None
    for key, stored, logged in _paired(_contents(store), _contents(restored)):
        count += 1
        if count % _CHUNK == 0:
            yield Counts(compared=_CHUNK)
        if stored == logged:
            continue
        if _has_all(stored, logged):
            if lacks_records is None:
                lacks_records = _lacks_records(log, store.spec)
            if lacks_records:
                removed += 1
                continue
        if logged is None:
            why = f"the store has a record that a restore of {log.path} does not write"
        elif stored is None:
            why = f"a restore of {log.path} writes a record that the store does not have"
        else:
            why = (
                "the record in the store differs from the record that a restore of "
                f"{log.path} writes"
            )
        yield "corrupt", Fault("compare", why), key[-1] if isinstance(key, tuple) else key
    if removed:
        why = (
            f"{removed} keys have records in the store that a restore of {log.path} does not "
            "write. A compaction has removed superseded or expired records from the log, so these "
            "records may be right, but cannot be compared"
        )
        yield "finding", Fault("compare", why), None
    yield Counts(compared=count % _CHUNK)


def _has_all(stored: Any, logged: Any) -> bool:
    """Return True if the store has all restored records of a key, and possibly more records."""
    if logged is None:
        return True
    if not (isinstance(stored, list) and isinstance(logged, list)):
        return False
    left = iter(stored)
    return all(any(_is_same(one, other) for one in left) for other in logged)


def _is_same(stored: Any, logged: Any) -> bool:
    """Return True if a record of the store is the restored one.

    A version ends when a later version begins. If the log lacks the later version, the restored
    version has a later end, or none.
    """
    if not isinstance(stored, VersionedRecord | VersionedRecordWithHeaders):
        return bool(stored == logged)
    ours, theirs = stored.valid_to, logged.valid_to
    ends = ours == theirs or (ours is not None and (theirs is None or ours < theirs))
    return ends and all(
        getattr(stored, name, None) == getattr(logged, name, None)
        for name in ("value", "timestamp", "headers")
    )


def _lacks_records(log: changelog.FileChangelog, spec: StoreSpec) -> bool:
    """Return True if a compaction has removed records from the log that the store may have.

    Compaction keeps the last record of each key until the record expires. A versioned store also
    has earlier records of a key.
    """
    end = log.start_offset
    if end or spec.shape != "versioned":
        return end > 0
    for segment in list_segments(log.path):
        for head in heads(segment):
            if head.record_count < head.last_offset + 1 - end:
                return True
            end = head.last_offset + 1
    return False


def _paired(
    ours: Iterator[tuple[Any, Any]], theirs: Iterator[tuple[Any, Any]]
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each key of two ascending streams with the value in the first and in the second stream.

    A value is None if its stream lacks the key.
    """
    our, their = next(ours, None), next(theirs, None)
    while our is not None or their is not None:
        if their is None or (our is not None and our[0] < their[0]):
            assert our is not None
            yield our[0], our[1], None
            our = next(ours, None)
        elif our is None or their[0] < our[0]:
            yield their[0], None, their[1]
            their = next(theirs, None)
        else:
            yield our[0], our[1], their[1]
            our, their = next(ours, None), next(theirs, None)


def _contents(store: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all records of a store as pairs of a key and a value, in ascending order of keys.

    A record has the same key in a store and in a restored store, so `_paired` can match them.
    """
    spec = store.spec
    if spec.shape == "key_value":
        yield from store.all()
    elif spec.shape == "versioned":
        for key, _ in version_rows([cast("Namespace", _Rows(store.table.rows))]):
            versions = list(store.history(key))
            if versions:
                yield key, versions
    else:
        keys = rows_of(spec.shape, time_ordered=spec.time_ordered)
        scan = store.all() if spec.shape == "window" else store.fetch_range(None, None)
        for key, group in groupby(scan, key=itemgetter(0)):
            times = (key.start, key.end) if spec.shape == "session" else (key.start,)
            row = keys.make(key.key, *times)
            segment = segment_id(keys.segment_time(row), spec.segment_interval_ms)
            yield (segment, row), [value for _, value in group]


class _Rows:
    """A view of a table with the two methods of a namespace that `version_rows` calls."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.first = table.first

    def scan(self, lo: bytes | None, hi: bytes | None) -> Iterator[Chunk]:
        return cast("Iterator[Chunk]", self._table.scan(Bounds(lo, hi)))

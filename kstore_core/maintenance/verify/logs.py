"""The check of the checksums, the offsets and the files of a changelog in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kstore_core.changelog.files.directory import (
    is_topic_of,
    log_at,
    logs_of,
    other_store,
    partition_of,
)
from kstore_core.changelog.files.reading import holding, read_end
from kstore_core.changelog.files.segment import Segment, batches, following, identity, list_segments
from kstore_core.changelog.files.start import noted_start, start_fault, written_fault
from kstore_core.changelog.files.tail import CUT, Rest, Tail, find_end
from kstore_core.codec import decode_record_columns
from kstore_core.errors import CorruptionError, FormatError, UnsupportedError
from kstore_core.maintenance.verify.findings import Counts, Severity
from kstore_core.maintenance.verify.rows import Fault
from kstore_core.offsets.entries import Partition

__all__ = ["check_end", "check_log", "log_of"]

_SOME_BATCHES = 100


def log_of(logs: Path, store: str, task: Path) -> Path | None:
    """Return the directory of a store's changelog: a directory in ``logs``, or ``logs`` itself.

    The name of the directory ``task`` gives the partition. Return None if there is no such log, if
    there are several, or if the log may belong to another store.
    """
    named = log_at(logs)
    if named is not None and is_topic_of(named[0], store) and list_segments(logs):
        return logs
    task = task.resolve()
    application = task.parent.name
    found = logs_of(logs, store, application, partition_of(task))
    if len(found) != 1 or other_store(found[0][0], store, application) is not None:
        return None
    return logs / "{}-{}".format(*found[0])


def check_log(
    log: Path, contains: Mapping[Partition, int] | None = None
) -> Iterator[tuple[Severity, Fault] | Counts]:
    """Yield the faults of a log, and counts of the batches and records that were read.

    If a segment of the log is damaged, the next segments are still read. It is a fault if the log
    ends before the store's offset.

    Parameters
    ----------
    log : Path
        The directory of the log.
    contains : mapping, optional
        The offset of the last record that the store contains, by partition.
    """
    noted, segments = noted_start(log), list_segments(log)
    missing_start = start_fault(log, segments)
    tail, rest = Tail(Segment.at(log, 0), 0, 0), Rest("none")
    segment = next(iter(segments), None)
    while segment is not None:
        before = _moment(segments, segment)
        faults: list[str] = []
        tail = Tail(segment, 0, segment.base_offset)
        try:
            for counted, read in _read(segment):
                tail = read
                if counted is not None:
                    yield counted
            tail, rest = find_end(segment, tail, verify=True)
            rest.check(tail)
            faults += _faults_between(tail, rest, before.after)
        except (CorruptionError, FormatError, UnsupportedError) as error:
            rest = Rest("damaged")
            why = str(error)
            faults.append(why if str(segment.path) in why else f"{segment.path}: {why}")
        except FileNotFoundError:
            faults.append(f"{segment.path} is missing")
        if faults:
            segments = list_segments(log)
            if segment not in segments or _moment(segments, segment) != before:
                # A compaction or an expiry has changed the segment during the read, or a file has
                # been lost, which the checks of the remaining segments find.
                missing_start = missing_start or start_fault(log, segments)
                segment = holding(segments, segment.base_offset)
                tail, rest = Tail(Segment.at(log, 0), 0, 0), Rest("none")
                continue
        for why in faults:
            yield "corrupt", Fault("log", why)
        segment = before.after
    if missing_start:
        yield "corrupt", Fault("log", missing_start)
    if rest.kind == "damaged":
        return
    unwritten = written_fault(log, noted, segments, tail, rest)
    yield from _end(log, contains or {}, tail, rest, unwritten)


class _Moment(NamedTuple):
    """The state of a segment, to see whether a compaction has changed the segment since then.

    Attributes
    ----------
    file : tuple of int or None
        The identity of the segment's file; None if the file is missing.
    after : Segment or None
        The next segment.
    """

    file: tuple[int, ...] | None
    after: Segment | None


def _moment(segments: list[Segment], segment: Segment) -> _Moment:
    """Return the state of a segment. Appends to the last segment do not change it."""
    file, after = identity(segment), following(segments, segment)
    return _Moment(file if after or file is None else file[:1], after)


def _faults_between(tail: Tail, rest: Rest, after: Segment | None) -> Iterator[str]:
    """Yield the faults between the last whole batch of a segment and the next segment."""
    if after is None:
        return
    if rest:
        where = f"{tail.segment.path}, byte {tail.position}, offset {tail.next_offset}"
        yield f"{where}: a batch is damaged or cut off"
    if after.base_offset != tail.next_offset:
        where = f"the segment before {after.path.name} ends at offset {tail.next_offset}"
        yield f"{where}, so a file is missing"


def check_end(log: Path, contains: Mapping[Partition, int]) -> Iterator[tuple[Severity, Fault]]:
    """Yield findings about a log's start, its last segment, and its end.

    Parameters
    ----------
    log : Path
        The directory of the log.
    contains : mapping
        The offset of the last record that the store contains, by partition.
    """
    noted = noted_start(log)
    if why := start_fault(log, list_segments(log)):
        yield "corrupt", Fault("log", why)
    try:
        segments, tail, rest = read_end(log, verify=True)
    except (CorruptionError, UnsupportedError) as error:
        yield "corrupt", Fault("log", str(error))
        return
    yield from _end(log, contains, tail, rest, written_fault(log, noted, segments, tail, rest))


def _read(segment: Segment) -> Iterator[tuple[Counts | None, Tail]]:
    """For each batch of a segment, yield counts or None, and the end of the batch.

    Counts are yielded after every `_SOME_BATCHES` batches, and cover these batches.
    """
    counts = Counts()
    tail = Tail(segment, 0, segment.base_offset)
    for head, data in batches(segment):
        columns = decode_record_columns(data, min_offset=tail.next_offset, position=head.at)
        for record in columns:
            for _ in record.headers:  # iteration parses the headers
                pass
        tail = Tail(segment, head.at + head.size, head.last_offset + 1, head.at)
        counts.log_batches += 1
        counts.log_records += len(columns)
        full = counts.log_batches == _SOME_BATCHES
        yield counts if full else None, tail
        counts = Counts() if full else counts
    yield counts, tail


def _end(
    log: Path, contains: Mapping[Partition, int], tail: Tail, rest: Rest, unwritten: str | None
) -> Iterator[tuple[Severity, Fault]]:
    """Compare a log's end with the store's offset, and yield findings about the end.

    Parameters
    ----------
    unwritten : str or None
        An error text if a log without batches has lost records or may have lost them, else None.
    """
    named = log_at(log)
    last = contains.get(named) if named else None
    after = f", followed by {rest}" if rest else ""
    if last is not None and last >= tail.next_offset:
        ends = f"ends at offset {tail.next_offset}{after}" if tail.next_offset else "is empty"
        if not tail.next_offset and rest:
            ends = f"has no whole batch, but {rest}"
        elif not tail.segment.path.exists():
            ends = "has no files"
        why = f"{log} {ends}, but the store contains the log up to offset {last}"
        yield (
            "corrupt",
            Fault("log", f"{why}. The log belongs to another store, or has lost its end"),
        )
    elif unwritten is not None:
        # After a power failure the first write of a log may consist of zeros only.
        severity: Severity = "finding" if noted_start(log) is None else "corrupt"
        yield severity, Fault("log", unwritten)
    elif rest:
        where = f"{tail.segment.path}, byte {tail.position}, offset {tail.next_offset}: {rest}"
        if rest.kind == "zeros" and last is None:
            yield "finding", Fault("log", f"{where}; records may be missing")
        else:
            target = f"{tail.segment.path.name}{CUT}<n>"
            yield "note", Fault("log", f"{where}; the next writer moves these bytes to {target}")

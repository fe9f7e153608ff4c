"""A changelog in files: every batch by its checksum, offsets that ascend, no file missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kstore_core.changelog.directory import is_topic_of, log_at, logs_of, other_store, partition_of
from kstore_core.changelog.segment import Segment, batches, is_torn, list_segments
from kstore_core.codec import decode_record_columns
from kstore_core.errors import CorruptionError, FormatError
from kstore_core.offsets import Partition
from kstore_core.verify.findings import Counts, Severity
from kstore_core.verify.rows import Fault

__all__ = ["check_log", "log_of"]

_SOME_BATCHES = 100


def log_of(logs: Path, store: str, task: Path) -> Path | None:
    """The log of a store's partition below ``logs``, or ``logs`` itself where it is one of it.

    The partition is the task's, where the name of its directory tells it. None where there is
    none, or several are, or one that may be another store's.
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
    """What is wrong with a log, and now and then how much was read.

    A segment that is damaged does not keep the later ones from being read. A log without any is
    one that nothing was written to, unless the store contains records of it.
    """
    segments = list_segments(log)
    named = log_at(log)
    offset = (contains or {}).get(named, -1) if named else -1
    if not segments and offset >= 0:
        why = f"{log} has no files, and the store contains it up to offset {offset}"
        yield "corrupt", Fault("log", why)
    next_offset: int | None = None
    for number, segment in enumerate(segments):
        name = segment.path.name
        if next_offset is not None and segment.base_offset != next_offset:
            why = f"the segment before {name} ends at offset {next_offset}: a file is missing"
            yield "corrupt", Fault("log", why)
        end = segment.base_offset
        position = 0
        try:
            for counted, offset, at in _read(segment):
                end, position = offset, at
                if counted is not None:
                    yield counted
        except (CorruptionError, FormatError) as error:
            yield "corrupt", Fault("log", f"{segment.path}: {error}")
            next_offset = None
            continue
        next_offset = end
        size = segment.path.stat().st_size
        if position < size:
            is_last = number == len(segments) - 1
            yield _rest(segment, position, size, end, is_last=is_last)


def _read(segment: Segment) -> Iterator[tuple[Counts | None, int, int]]:
    """For each batch the offset behind it and where it ends; counts after some of them."""
    counts = Counts()
    offset, end = segment.base_offset, 0
    for head, data in batches(segment):
        columns = decode_record_columns(data, min_offset=offset, position=head.at)
        for record in columns:
            for _ in record.headers:  # parsed when somebody looks
                pass
        offset, end = head.last_offset + 1, head.at + head.size
        counts.log_batches += 1
        counts.log_records += len(columns)
        full = counts.log_batches == _SOME_BATCHES
        yield counts if full else None, offset, end
        counts = Counts() if full else counts
    yield counts, offset, end


def _rest(
    segment: Segment, position: int, size: int, offset: int, *, is_last: bool
) -> tuple[Severity, Fault]:
    """What the bytes behind the last whole batch are."""
    with segment.path.open("rb") as file:
        file.seek(position)
        rest = file.read()
    where = f"{segment.path}, byte {position}, offset {offset}"
    if is_last and (not rest.strip(b"\0") or is_torn(rest, offset)):
        why = f"{where}: {size - position} bytes of a batch that was not written to its end"
        return "note", Fault("log", f"{why}; the next writer cuts them off")
    return "corrupt", Fault("log", f"{where}: a batch is damaged or cut off")

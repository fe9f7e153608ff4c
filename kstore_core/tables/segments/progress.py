"""The last commit of each segment, to detect a segment that has lost the end of its log.

Each database of a store in segments has a write-ahead log of its own, and a power cut or a damaged
file may take the end of one and leave the others. So commits are numbered. What a commit writes to
a segment carries the commit's number, and the record of the store, which is in the newest segment,
lists the number of each segment. A segment whose own number is less than the listed one has lost
rows.

Two entries of the offsets namespace hold this; Kafka Streams reads past both:

* ``kstore.commit``, in each segment: the number of the last commit that wrote to it, and the record
  of the store as of that commit (offsets, position, stream time, notes). From a segment that lacks
  commits, this gives the offsets that its rows still justify.
* ``kstore.segments``, in the record: the segments, the number of each, and a flag. The flag is set
  if the database was closed cleanly since, so that no log is needed to read it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kstore_core.engine import Database
from kstore_core.errors import CorruptionError, InconsistentStateError
from kstore_core.hints import command
from kstore_core.offsets.entries import (
    COMMIT,
    SEGMENTS,
    SPEC,
    StoreRecord,
    kafka_digest,
    merged_record,
    parse_entries,
)
from kstore_core.tables import OFFSETS

__all__ = [
    "Expected",
    "Progress",
    "SegmentCommit",
    "commit_of",
    "decode_commit",
    "decode_segments",
    "encode_segments",
    "find_progress",
    "lost_rows",
    "with_record",
    "without_record",
]

_log = logging.getLogger("kstore_core")

_WITH_RECORD, _WITHOUT_RECORD = 0, 1
_COMMIT = struct.Struct(">qB")
_DIGEST = struct.Struct(">I")
_SIZES = struct.Struct(">II")
_SEGMENT = struct.Struct(">qq?")


class Expected(NamedTuple):
    """A segment's entry in the record of a store.

    Attributes
    ----------
    commit : int
        The number of the last commit that wrote to it; 0 if other software wrote it.
    sealed : bool
        Its database was closed cleanly since, so its rows do not depend on a write-ahead log.
    """

    commit: int
    sealed: bool


class SegmentCommit(NamedTuple):
    """The last commit that wrote to a segment.

    Attributes
    ----------
    number : int
    digest : int or None
        CRC-32 of Kafka's entries, where the commit wrote the record of the store beside the rows.
    record : StoreRecord or None
        The record as of the commit; None if the newest segment has it beside the rows.
    """

    number: int
    digest: int | None
    record: StoreRecord | None


@dataclass(slots=True)
class Progress:
    """The combined progress of the segments of a store.

    Attributes
    ----------
    record : StoreRecord
        The offsets are those that the rows of all segments justify.
    segments : dict of int to Expected
        The segments by id, as the databases are.
    number : int
        The number of the last known commit.
    behind : str
        A message about the segments that lack commits; empty if there are none.
    """

    record: StoreRecord
    segments: dict[int, Expected] = field(default_factory=dict)
    number: int = 0
    behind: str = ""


def with_record(
    entries: Mapping[bytes, bytes | None], number: int, segments: Mapping[int, Expected]
) -> dict[bytes, bytes | None]:
    """Return the record of a store, for its newest segment and the commit of this number."""
    kafkas = kafka_digest((key, value) for key, value in entries.items() if value is not None)
    commit = _COMMIT.pack(number, _WITH_RECORD) + _DIGEST.pack(kafkas)
    return {**entries, COMMIT: commit, SEGMENTS: encode_segments(segments)}


def without_record(entries: Mapping[bytes, bytes | None], number: int) -> bytes:
    """Return the entry ``kstore.commit`` of a segment that is not the newest.

    Parameters
    ----------
    entries : mapping of bytes to bytes or None
        The whole record as of this commit, in the order of its keys.
    """
    parts = [_COMMIT.pack(number, _WITHOUT_RECORD)]
    for key, value in entries.items():
        if value is not None and key != SPEC:
            parts += (_SIZES.pack(len(key), len(value)), key, value)
    return b"".join(parts)


def decode_commit(data: bytes) -> SegmentCommit:
    """Decode the entry ``kstore.commit``.

    Raises
    ------
    CorruptionError
        The bytes are malformed.
    """
    try:
        number, kind = _COMMIT.unpack_from(data)
        if number < 1 or kind not in (_WITH_RECORD, _WITHOUT_RECORD):
            raise ValueError
        if kind == _WITH_RECORD:
            (digest,) = _DIGEST.unpack(data[_COMMIT.size :])
            return SegmentCommit(number, digest, None)
        return SegmentCommit(
            number, None, parse_entries(_pairs(data, _COMMIT.size), COMMIT.decode())
        )
    except (struct.error, ValueError) as error:
        raise _damaged(COMMIT, data) from error


def _pairs(data: bytes, at: int) -> Iterable[tuple[bytes, bytes]]:
    while at < len(data):
        key_size, value_size = _SIZES.unpack_from(data, at)
        at += _SIZES.size
        end = at + key_size + value_size
        if end > len(data):
            raise ValueError
        yield data[at : at + key_size], data[at + key_size : end]
        at = end


def commit_of(database: Database) -> int:
    """The number of the last commit that wrote to a segment's database; 0 if there was none."""
    if OFFSETS not in database.namespaces():
        return 0
    entry = database.namespace(OFFSETS).get(COMMIT)
    return 0 if entry is None else decode_commit(entry).number


def encode_segments(segments: Mapping[int, Expected]) -> bytes:
    """Encode the entry ``kstore.segments``."""
    return b"".join(_SEGMENT.pack(number, *segments[number]) for number in sorted(segments))


def decode_segments(data: bytes) -> dict[int, Expected]:
    """Decode the entry ``kstore.segments``, by segment id.

    Raises
    ------
    CorruptionError
        The bytes are malformed.
    """
    try:
        found = {number: Expected(*fields) for number, *fields in _SEGMENT.iter_unpack(data)}
    except struct.error as error:
        raise _damaged(SEGMENTS, data) from error
    if any(number < 0 or expected.commit < 0 for number, expected in found.items()):
        raise _damaged(SEGMENTS, data)
    return found


def _damaged(key: bytes, data: bytes) -> CorruptionError:
    return CorruptionError(
        f"the entry {key.decode()!r} of the offsets namespace is damaged ({len(data)} bytes); "
        "restore the store from its changelog"
    )


def find_progress(
    store: str,
    where: Path,
    names: Mapping[int, str],
    read: Callable[[int], StoreRecord],
    *,
    max_read: int,
    all_segments: bool = False,
) -> Progress:
    """Read the progress of the segments, and reset the offsets if a segment has lost commits.

    The record is that of the newest segment with one. Each other segment whose database was not
    closed cleanly is read too.

    Parameters
    ----------
    where : Path
        The directory of the segments.
    names : mapping of int to str
        The names of the segments by their ids.
    read : callable
        Takes the id of a segment and returns the record in its offsets namespace.
    max_read : int
        The most segments that are read to find the record.
    all_segments : bool
        Also read those that were closed cleanly. An open leaves that to the first use of each.

    Raises
    ------
    InconsistentStateError
        A segment is missing or has no entry of its commits, or one that was closed cleanly lacks
        commits.
    CorruptionError
        An entry is damaged.
    """
    records: dict[int, StoreRecord] = {}
    for number in sorted(names, reverse=True)[:max_read]:
        records[number] = read(number)
        if records[number].spec is not None:
            break
    merged = merged_record(records.values())
    if merged.spec is None or (holder := records[number]).segments is None:
        return Progress(merged)
    segments = decode_segments(holder.segments)
    commit = None if holder.commit is None else decode_commit(holder.commit)
    # Kafka Streams has written since: a newer segment, or other offsets beside this record.
    written_by_kafka = len(records) > 1 or commit is None or commit.digest != holder.digest
    _check_present(store, where, names, segments, written_by_kafka=written_by_kafka)
    found = Progress(merged, segments, 0 if commit is None else commit.number)
    behind: list[str] = []
    earliest: SegmentCommit | None = None
    for other, expected in segments.items():
        if other not in names or other == number or not expected.commit:
            continue
        if expected.sealed and not all_segments:
            continue
        record = records.get(other) or read(other)
        if record.commit is None:
            raise lost_rows(store, where, f"{names[other]} does not say which commits it has")
        own = decode_commit(record.commit)
        if own.number >= expected.commit:
            continue
        lacks = f"{names[other]} has commit {own.number} and should have {expected.commit}"
        if expected.sealed:  # no log was needed, so it is an older copy, and its use is refused
            raise lost_rows(store, where, lacks)
        if own.record is None:
            own = own._replace(record=record)
        behind.append(lacks)
        segments[other] = Expected(own.number, sealed=False)
        if earliest is None or own.number < earliest.number:
            earliest = own
    if earliest is not None and earliest.record is not None:
        old = earliest.record
        found.record = StoreRecord(
            old.offsets, old.position, merged.spec, old.stream_time, old.notes
        )
        found.behind = _behind(behind, found.record)
        _warn(str(where), found.behind)
    return found


def _behind(segments: Iterable[str], record: StoreRecord) -> str:
    offsets = ", ".join(
        f"{topic}-{partition}: {offset}"
        for (topic, partition), offset in sorted(record.known_offsets.items())
    )
    return (
        f"the end of a write-ahead log was lost: {', '.join(segments)}. The offsets count as those "
        f"of the last commit that all segments have ({offsets or 'none'}); process the input again "
        "from there"
    )


@lru_cache
def _warn(where: str, text: str) -> None:
    """Log a warning once, however often the store is read."""
    _log.warning("%s: %s", where, text)


def _check_present(
    store: str,
    where: Path,
    names: Mapping[int, str],
    segments: Mapping[int, Expected],
    *,
    written_by_kafka: bool,
) -> None:
    missing = sorted(segments.keys() - names.keys())
    if written_by_kafka:  # Kafka may have dropped the oldest, without an entry
        missing = [number for number in missing if number > min(names)]
    if missing:
        raise lost_rows(
            store, where, f"{len(missing)} of {len(segments)} segments of its record are missing"
        )


def lost_rows(store: str, where: Path, what: str) -> InconsistentStateError:
    """Return the error for a store whose rows do not justify any of its offsets."""
    set_aside = command("doctor", where.parent, options=f"--set-aside {store}")
    return InconsistentStateError(
        f"the store {store!r} in {where.parent} has lost rows that its offsets count as written: "
        f"{what}. Nothing was changed. Put the files back from a copy; or set the store aside "
        f"({set_aside}) and restore it from its changelog, or process its input again from the "
        "start"
    )

"""The numbers of the last commits of segments. They reveal that a segment has lost commits.

If each segment of a store has a separate database, each database has a separate write-ahead log. A
power cut or a damaged file may destroy the end of one log and leave the other logs complete.

So kstore numbers the commits. Each batch that a commit writes to a segment contains the number of
the commit. The newest segment contains the metadata of the store, with a list of each segment's
last commit number. If a segment contains a lower number than the list, this segment has lost rows.

Two entries of the offsets namespace contain these numbers. Kafka Streams ignores both entries.

* Each segment has an entry ``kstore.commit``. It contains the number of the last commit that wrote
  to the segment, and the metadata of the store after that commit (offsets, position, stream time,
  notes). If a segment lacks commits, its rows are complete up to the offsets in this entry.
* The metadata have an entry ``kstore.segments``. It lists each segment with its commit number and a
  flag. The flag is set if the segment's database was closed cleanly after that commit. Such a
  database does not need its log any more.
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
    """The state of a segment according to the metadata of its store.

    Attributes
    ----------
    commit : int
        The number of the last commit that wrote to the segment; 0 if kstore wrote no commit to it.
    sealed : bool
        True if the segment's database was closed cleanly after that commit. Its rows then do not
        depend on a write-ahead log.
    """

    commit: int
    sealed: bool


class SegmentCommit(NamedTuple):
    """The last commit that wrote to a segment, from the segment's entry ``kstore.commit``.

    Attributes
    ----------
    number : int
        The number of the commit.
    digest : int or None
        The CRC-32 of the entries that Kafka Streams reads. None if the commit did not write the
        metadata of the store to this segment.
    record : StoreRecord or None
        The metadata of the store after the commit. None if the segment has separate entries for
        the metadata.
    """

    number: int
    digest: int | None
    record: StoreRecord | None


@dataclass(slots=True)
class Progress:
    """The last commit in each segment of a store, and the resulting offsets.

    Attributes
    ----------
    record : StoreRecord
        The metadata of the store. Its offsets are those of the last commit that no segment lacks.
    segments : dict of int to Expected
        The last commit in each segment's database, by segment id.
    number : int
        The number of the last known commit.
    behind : str
        A message about the segments that lack commits; empty if no segment lacks commits.
    """

    record: StoreRecord
    segments: dict[int, Expected] = field(default_factory=dict)
    number: int = 0
    behind: str = ""


def with_record(
    entries: Mapping[bytes, bytes | None], number: int, segments: Mapping[int, Expected]
) -> dict[bytes, bytes | None]:
    """Return the entries of a store's metadata that commit ``number`` writes to the newest segment.

    Parameters
    ----------
    entries : mapping of bytes to bytes or None
        The metadata after the commit.
    number : int
        The number of the commit.
    segments : mapping of int to Expected
        The state of each segment after this commit.
    """
    kafkas = kafka_digest((key, value) for key, value in entries.items() if value is not None)
    commit = _COMMIT.pack(number, _WITH_RECORD) + _DIGEST.pack(kafkas)
    return {**entries, COMMIT: commit, SEGMENTS: encode_segments(segments)}


def without_record(entries: Mapping[bytes, bytes | None], number: int) -> bytes:
    """Return the entry ``kstore.commit`` of a segment that is not the newest.

    Parameters
    ----------
    entries : mapping of bytes to bytes or None
        The whole metadata of the store after this commit, sorted by key.
    number : int
        The number of the commit.
    """
    parts = [_COMMIT.pack(number, _WITHOUT_RECORD)]
    for key, value in entries.items():
        if value is not None and key != SPEC:
            parts += (_SIZES.pack(len(key), len(value)), key, value)
    return b"".join(parts)


def decode_commit(data: bytes) -> SegmentCommit:
    """Decode the value of an entry ``kstore.commit``.

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
    """Return the number of the last commit that wrote to a segment's database; 0 if none did."""
    if OFFSETS not in database.namespaces():
        return 0
    entry = database.namespace(OFFSETS).get(COMMIT)
    return 0 if entry is None else decode_commit(entry).number


def encode_segments(segments: Mapping[int, Expected]) -> bytes:
    """Encode the value of the entry ``kstore.segments``."""
    return b"".join(_SEGMENT.pack(number, *segments[number]) for number in sorted(segments))


def decode_segments(data: bytes) -> dict[int, Expected]:
    """Decode the value of the entry ``kstore.segments`` to a dict by segment id.

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
        f"the entry {key.decode()!r} of the offsets namespace is damaged; it has "
        f"{len(data)} bytes. Restore the store from its changelog"
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
    """Find the last commit in each segment of a store, and the resulting offsets.

    The metadata comes from the newest segment that contains metadata with a spec. The function also
    reads each other segment whose database was not closed cleanly. If such a segment has lost
    commits, the offsets in the result are those of the last commit that no segment lacks.

    Parameters
    ----------
    store : str
        The name of the store.
    where : Path
        The directory of the segments.
    names : mapping of int to str
        The names of the segments by their ids.
    read : callable
        A function that takes a segment id and returns the metadata in the segment's database.
    max_read : int
        The maximum number of segments to search for the metadata.
    all_segments : bool
        If True, also read the segments that were closed cleanly. If False, these segments are
        checked only at their first use.

    Raises
    ------
    InconsistentStateError
        A segment is missing or has no entry ``kstore.commit``, or a cleanly closed segment lacks
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
    # A newer segment without metadata, or offsets that do not match the digest, show that Kafka
    # Streams has written to the store after the last commit of kstore.
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
            raise lost_rows(store, where, f"{names[other]} has no entry 'kstore.commit'")
        own = decode_commit(record.commit)
        if own.number >= expected.commit:
            continue
        lacks = (
            f"the last commit in {names[other]} is number {own.number}, but the store has written "
            f"the commit {expected.commit} to it"
        )
        # A database that was closed cleanly needs no log. So it can lack commits only if an older
        # copy has replaced it.
        if expected.sealed:
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
        f"the end of a write-ahead log was lost: {', '.join(segments)}. So kstore uses the offsets "
        f"of the last commit that all segments have ({offsets or 'none'}). Process the input again "
        "from these offsets"
    )


@lru_cache
def _warn(where: str, text: str) -> None:
    """Log a warning. Log it only once, even if the store is read again."""
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
    if written_by_kafka:  # Kafka Streams drops old segments without changing the list of segments.
        missing = [number for number in missing if number > min(names)]
    if missing:
        raise lost_rows(
            store, where, f"{len(missing)} of {len(segments)} segments in its metadata are missing"
        )


def lost_rows(store: str, where: Path, what: str) -> InconsistentStateError:
    """Return the error for a store that has lost rows, so no offsets are valid for it."""
    set_aside = command("doctor", where.parent, options=f"--set-aside {store}")
    return InconsistentStateError(
        f"the store {store!r} in {where.parent} has lost rows, although its offsets say that the "
        f"rows were written: {what}. Nothing was changed. Put the files back from a copy. Or move "
        f"the store to another folder ({set_aside}), and then restore it from its changelog or "
        "process its input again from the start"
    )

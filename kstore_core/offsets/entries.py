"""The entries of the offsets namespace, which contain the metadata of a store.

Kafka Streams writes the open marker, the position, and one offset per changelog partition. The
names of kstore's own entries begin with ``kstore.``, and Kafka Streams ignores them.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kstore_core.engine import Namespace, Rows
from kstore_core.errors import (
    CorruptionError,
    FormatDowngradeError,
    FormatError,
    SpecError,
)
from kstore_core.offsets.notes import note_entries, note_name
from kstore_core.offsets.position import decode_position, encode_position, merge_positions
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.stream_clock import START

__all__ = [
    "CLOSED",
    "COMMIT",
    "OPEN",
    "SEGMENTS",
    "SPEC",
    "STATUS",
    "UNKNOWN",
    "Entries",
    "Partition",
    "StoreRecord",
    "common_offsets",
    "kafka_digest",
    "merged_record",
    "parse_entries",
    "read_record",
    "sorted_rows",
]

Partition = tuple[str, int]
"""The type of a partition: the topic, and the number of the partition."""

STATUS = b"status"
POSITION = b"position"
SPEC = b"kstore.spec"
STREAM_TIME = b"kstore.stream-time"
COMMIT = b"kstore.commit"
SEGMENTS = b"kstore.segments"
"""The key of the progress of segments; see :mod:`kstore_core.tables.segments.progress`."""

_OURS = b"kstore."

UNKNOWN = -4
"""The number that Kafka stores for an unknown offset. A restore then reads the whole log."""

_NUMBER = re.compile("[0-9]{1,10}")
_LONG = struct.Struct(">q")
OPEN = _LONG.pack(1)
CLOSED = _LONG.pack(0)


@dataclass(slots=True)
class StoreRecord:
    """The content of a store's offsets namespace.

    Attributes
    ----------
    offsets : dict
        For each partition, the offset of the last record that the rows contain. -4 means unknown.
    position : dict or None
        The last input offset that was applied, by topic and partition; None before the first
        commit.
    spec : StoredSpec or None
        The stored spec; None if Kafka Streams wrote the store.
    stream_time : int or None
        The stream time in ms; None if it was never stored.
    notes : dict
        The notes that the program committed, by name.
    commit, segments : bytes or None
        ``commit`` describes the last commit that wrote to the segment with this namespace.
        ``segments`` lists the number of the last commit of every segment of the store.
    digest : int
        The CRC-32 of the entries that Kafka Streams reads and writes.
    """

    offsets: dict[Partition, int] = field(default_factory=dict)
    position: dict[str, dict[int, int]] | None = None
    spec: StoredSpec | None = None
    stream_time: int | None = None
    notes: dict[str, bytes] = field(default_factory=dict)
    commit: bytes | None = None
    segments: bytes | None = None
    digest: int = field(default=0, compare=False)

    @property
    def known_offsets(self) -> dict[Partition, int]:
        """The offsets by partition, without unknown offsets (-4)."""
        return {at: offset for at, offset in self.offsets.items() if offset != UNKNOWN}


@dataclass(frozen=True, slots=True)
class Entries:
    """The metadata that a commit writes with its rows. None leaves an entry unchanged.

    Attributes
    ----------
    offsets : mapping or None
        The new offset of each partition. A None in the mapping removes the stored offset of its
        partition. An empty mapping removes all stored offsets.
    position : mapping or None
        The last applied offset, by topic and partition.
    stream_time : int or None
        The stream time in ms.
    spec : StoreSpec, StoredSpec or None
        The spec of the store.
    notes : mapping or None
        The new notes by name. A None in the mapping removes the stored note. Other stored notes do
        not change.
    """

    offsets: Mapping[Partition, int | None] | None = None
    position: Mapping[str, Mapping[int, int]] | None = None
    stream_time: int | None = None
    spec: StoreSpec | StoredSpec | None = None
    notes: Mapping[str, bytes | None] | None = None

    def __bool__(self) -> bool:
        given = (self.offsets, self.position, self.stream_time, self.spec, self.notes)
        return any(entry is not None for entry in given)

    def rows(self, record: StoreRecord) -> Rows:
        """Return the sorted rows to write to an offsets namespace that contains ``record``."""
        entries: dict[bytes, bytes | None] = {}
        if self.offsets is not None:
            if not self.offsets:
                entries |= dict.fromkeys(map(_offset_key, record.offsets))
            for partition, offset in self.offsets.items():
                entries[_offset_key(partition)] = None if offset is None else _LONG.pack(offset)
        if self.position is not None:
            entries[POSITION] = encode_position(self.position)
        if self.stream_time is not None:
            entries[STREAM_TIME] = _LONG.pack(self.stream_time)
        if self.spec is not None:
            described = json.dumps(self.spec.describe(), separators=(",", ":"), sort_keys=True)
            entries[SPEC] = described.encode()
        return sorted_rows(entries | note_entries(self.notes or {}))

    @property
    def forgets(self) -> bool:
        """True if these entries remove offsets or notes."""
        given = self.offsets
        if given is not None and (not given or None in given.values()):
            return True
        return self.notes is not None and None in self.notes.values()


def read_record(namespace: Namespace, where: str = "a store") -> StoreRecord:
    """Read all entries of the offsets namespace.

    Parameters
    ----------
    namespace : Namespace
        The offsets namespace.
    where : str
        The store and the path of its database, for error messages.

    Raises
    ------
    CorruptionError
        An entry is damaged.
    FormatDowngradeError
        A newer kstore wrote the stored spec.
    """
    pairs = (pair for keys, values in namespace.scan() for pair in zip(keys, values, strict=True))
    return parse_entries(pairs, where)


def parse_entries(entries: Iterable[tuple[bytes, bytes]], where: str) -> StoreRecord:
    """Parse the entries of an offsets namespace. The entries must be in the order of their keys.

    Raises
    ------
    CorruptionError, FormatDowngradeError
        An entry is damaged or too new; see :func:`read_record`.
    """
    record = StoreRecord()
    for key, value in entries:
        record.digest = kafka_digest([(key, value)], record.digest)
        try:
            _read_entry(record, key, value)
        except (FormatError, SpecError) as error:
            raise CorruptionError(
                f"the entry {key.decode(errors='backslashreplace')!r} in the offsets namespace "
                f"of {where} is damaged: {error}. Nothing was changed; restore the store from "
                "its changelog"
            ) from error
        except FormatDowngradeError as error:
            raise FormatDowngradeError(f"{where}: {error}") from error
    return record


def _read_entry(record: StoreRecord, key: bytes, value: bytes) -> None:
    """Parse an entry and add it to the record.

    Raises
    ------
    FormatError, SpecError
        The entry is damaged.
    FormatDowngradeError
        A newer kstore wrote the stored spec.
    """
    if key == POSITION:
        record.position = decode_position(value)
    elif key == SPEC:
        record.spec = StoredSpec.parse(value)
    elif key == STREAM_TIME:
        record.stream_time = _stream_time(value)
    elif key == COMMIT:
        record.commit = value
    elif key == SEGMENTS:
        record.segments = value
    elif (name := note_name(key)) is not None:
        record.notes[name] = value
    elif key != STATUS:
        partition = _partition(key)
        if partition is not None:
            record.offsets[partition] = _long(value)


def kafka_digest(entries: Iterable[tuple[bytes, bytes]], digest: int = 0) -> int:
    """Return the CRC-32 of the offsets and the position.

    Kafka Streams changes these entries when it commits, so a changed digest shows such a commit.

    Parameters
    ----------
    entries : iterable of (key, value)
        The entries in the order of their keys.
    digest : int
        The digest of the entries that precede ``entries``.
    """
    for key, value in entries:
        if key != STATUS and not key.startswith(_OURS):
            digest = zlib.crc32(value, zlib.crc32(key, digest))
    return digest


def merged_record(records: Iterable[StoreRecord]) -> StoreRecord:
    """Merge the metadata of several databases of one store.

    The result has the newest value of each offset and each note, and the greatest stream time. Its
    position has the greatest offset of each partition. A record with a spec is complete, so the
    function ignores the records that follow it.

    Parameters
    ----------
    records : iterable of StoreRecord
        The metadata of the databases, the newest first.
    """
    merged = StoreRecord()
    for record in records:
        merged.offsets = record.offsets | merged.offsets
        merged.notes = record.notes | merged.notes
        if record.position is not None:
            merged.position = merged.position or {}
            merge_positions(merged.position, record.position)
        if record.stream_time is not None:
            known = record.stream_time if merged.stream_time is None else merged.stream_time
            merged.stream_time = max(known, record.stream_time)
        merged.spec = record.spec
        if merged.spec is not None:
            break
    return merged


def _long(value: bytes) -> int:
    if len(value) != _LONG.size:
        raise FormatError(f"the number has {len(value)} bytes, not 8 bytes")
    number: int = _LONG.unpack(value)[0]
    return number


def _stream_time(value: bytes) -> int:
    time = _long(value)
    if time < START:
        raise FormatError(
            f"the stream time is {time} ms, but must be {START} (no stream time yet) or more"
        )
    return time


def _partition(key: bytes) -> Partition | None:
    topic, _, number = key.decode(errors="replace").rpartition("-")
    if not (topic and _NUMBER.fullmatch(number) and int(number) < 2**31):
        if key.startswith(_OURS):
            return None  # A newer kstore wrote this entry.
        raise FormatError("the key contains no partition; it must be <topic>-<partition number>")
    return topic, int(number)


def sorted_rows(entries: Mapping[bytes, bytes | None]) -> Rows:
    """Return entries as rows that are sorted by key."""
    keys = sorted(entries)
    return Rows(keys, [entries[key] for key in keys])


def _offset_key(partition: Partition) -> bytes:
    topic, number = partition
    return f"{topic}-{number}".encode()


def common_offsets(records: Mapping[str, StoreRecord]) -> dict[Partition, int]:
    """Return the least offset of each partition in several stores.

    The result lacks a partition if one of the stores has no offset for the partition. For a
    changelog ``…-<store>-changelog``, only the offset in ``<store>`` counts. The result is empty if
    one of the stores has no offsets at all.

    Parameters
    ----------
    records : mapping of str to StoreRecord
        The metadata of the stores, by the stores' names.
    """
    known = {name: record.known_offsets for name, record in records.items()}
    if not all(known.values()):
        return {}
    common: dict[Partition, int] = {}
    for partition in {partition for offsets in known.values() for partition in offsets}:
        owners = [name for name in known if partition[0].endswith(f"-{name}-changelog")]
        found = [known[name].get(partition) for name in owners or known]
        contained = [offset for offset in found if offset is not None]
        if contained and (owners or len(contained) == len(found)):
            common[partition] = min(contained)
    return common

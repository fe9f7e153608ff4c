"""The commit markers in a changelog. A commit marker is also called a mark.

A commit writes a marker before each batch of its rows, and a marker after all its rows. A marker is
a tombstone record whose key no store has. A header of the record has the content of the marker.
A restore by Kafka Streams applies a marker as the deletion of this key, so no row changes.
docs/decisions/changelogs/commit-markers.md has the reasons for this design.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kstore_core.codec import RecordColumns
from kstore_core.errors import FormatError
from kstore_core.offsets.entries import Partition
from kstore_core.offsets.position import copy_position

__all__ = ["MARK_KEY", "Begin", "Commit", "Mark", "append_mark", "is_commit", "marks_in", "parse"]

MARK_KEY = b"\0kstore.commit 8f0c5b1e27d94a63" + bytes(16)
"""The key of all markers. All markers have the same key, so that compaction keeps only the last
marker.

The key ends with zeros, like the key of a window or session whose times are 0. So a restore by
Kafka Streams does not advance stream time when it reads a marker.
"""

_HEADER = "kstore.commit"
_BEGIN, _COMMIT = b"B", b"C"
_NUMBERS = struct.Struct(">qq")
_NOTHING = -1


@dataclass(frozen=True, slots=True)
class Begin:
    """The marker that is sent before each batch of rows of a commit.

    Attributes
    ----------
    rows : int
        The number of row records in the batch that follows the marker.
    without : int or None
        The first offset of the void records before this marker; None if no records are void. A
        record is void if an earlier writer sent the record, but was killed before it had finished
        the commit.
    """

    rows: int
    without: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """The marker that is sent after the rows of a commit, with the metadata of the commit.

    Attributes
    ----------
    offsets : dict
        For each input partition, the offset that the caller committed: that of the last processed
        record.
    position : dict
        For each topic and partition of the input, the offset of the last record that wrote to the
        store.
    stream_time : int or None
        The store's stream time in ms; None if it is unknown.
    notes : dict
        The metadata that layers and callers stored with the commit, by name.
    """

    offsets: dict[Partition, int] = field(default_factory=dict)
    position: dict[str, dict[int, int]] = field(default_factory=dict)
    stream_time: int | None = None
    notes: dict[str, bytes] = field(default_factory=dict)


Mark = Begin | Commit


def append_mark(columns: RecordColumns, mark: Mark, timestamp: int) -> None:
    """Append the record of a marker to columns of records."""
    mark_bytes = _begin_bytes(mark) if isinstance(mark, Begin) else _commit_bytes(mark)
    columns.append(columns.next_offset, timestamp, MARK_KEY, None, [(_HEADER, mark_bytes)])


def marks_in(columns: RecordColumns) -> Iterable[tuple[int, bytes]]:
    """Yield the index and the encoded bytes of each marker. `parse` decodes the bytes."""
    for index in columns.with_key(MARK_KEY):
        record = columns[index]
        if record.value is None and (mark_bytes := record.headers.value(_HEADER)) is not None:
            yield index, mark_bytes


def is_commit(mark_bytes: bytes) -> bool:
    """Return True if the bytes of a marker encode a `Commit`."""
    return mark_bytes.startswith(_COMMIT)


def parse(mark_bytes: bytes) -> Mark:
    """Return the marker that the bytes encode.

    Raises
    ------
    FormatError
        The bytes do not encode a marker, or encode a marker that only a newer kstore knows.
    """
    try:
        if mark_bytes[:1] == _BEGIN:
            rows, without = _NUMBERS.unpack(mark_bytes[1:])
            return Begin(rows, None if without == _NOTHING else without)
        if mark_bytes[:1] == _COMMIT:
            return _commit_of(json.loads(mark_bytes[1:]))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"a commit marker in the changelog cannot be decoded: {error}. Its first bytes are "
            f"{mark_bytes[:60]!r}. Take the log from a copy, or restore the store from its source"
        ) from error
    raise FormatError(
        f"a commit marker in the changelog begins with {mark_bytes[:60]!r}, a kind of marker that "
        "this version of kstore does not know. A newer version wrote the log; upgrade kstore"
    )


def _begin_bytes(begin: Begin) -> bytes:
    without = _NOTHING if begin.without is None else begin.without
    return _BEGIN + _NUMBERS.pack(begin.rows, without)


def _commit_bytes(commit: Commit) -> bytes:
    fields: dict[str, Any] = {
        "offsets": [[*at, offset] for at, offset in sorted(commit.offsets.items())],
        "position": _listed(commit.position),
    }
    if commit.stream_time is not None:
        fields["stream_time"] = commit.stream_time
    if commit.notes:
        fields["notes"] = {name: b64encode(note).decode() for name, note in commit.notes.items()}
    return _COMMIT + json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def _commit_of(fields: dict[str, Any]) -> Commit:
    position: dict[str, dict[int, int]] = {}
    for topic, partition, offset in fields["position"]:
        position.setdefault(topic, {})[partition] = offset
    return Commit(
        {(topic, partition): offset for topic, partition, offset in fields["offsets"]},
        position,
        fields.get("stream_time"),
        {name: b64decode(note) for name, note in fields.get("notes", {}).items()},
    )


def _listed(position: Mapping[str, Mapping[int, int]]) -> list[list[Any]]:
    return [
        [topic, partition, offset]
        for topic, offsets in copy_position(position).items()
        for partition, offset in offsets.items()
    ]

"""The check of a single row, with its key, its segment and its value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kstore_core.clock import segment_id
from kstore_core.codec import (
    decode_aggregation_with_headers,
    decode_latest,
    decode_value_and_timestamp,
    decode_value_timestamp_headers,
    segment_rows,
)
from kstore_core.errors import FormatError
from kstore_core.formats import ValueFormat
from kstore_core.keys import RowKeys
from kstore_core.maintenance.verify.kinds import Kind
from kstore_core.serdes import BuiltInSerde, found
from kstore_core.tables.version_scans import LATEST_PREFIX

__all__ = ["LEFT_OUT", "Fault", "RowCheck", "SegmentTime"]

_INDEX = b"\x01"


class Fault(NamedTuple):
    """A fault that a check has found. The fault is not serious if the data can still be read."""

    what: str
    why: str
    serious: bool = True


LEFT_OUT = {
    "duplicates": Fault(
        "description",
        "the row has a sequence number, but the store was described as a store without duplicates. "
        "Pass retain_duplicates=True, --retain-duplicates on the command line",
        serious=False,
    ),
    "index": Fault(
        "description",
        "the row is an index row, but the store was described as a store without an "
        "index. Leave out indexed=False, --without-index on the command line",
        serious=False,
    ),
    "no index": Fault(
        "description",
        "the rows have no index, but the store was described as a store with an index. "
        "Pass indexed=False, --without-index on the command line",
        serious=False,
    ),
}
"""The faults that an undamaged store seems to have if the caller has passed a wrong spec."""


class SegmentTime(NamedTuple):
    """The start (inclusive) and the latest possible end (exclusive) of a segment, in ms.

    The end is 0 if it is unknown.
    """

    start: int
    end: int


class RowCheck:
    """The check of the rows of one namespace.

    Parameters
    ----------
    kind : Kind
        The kind of the store.
    value_format : ValueFormat or None
        The format of the rows. If it is None, the format is unknown and values are not decoded.
    id_bytes : int
        The number of bytes that a segment's id occupies at the start of each stored key; 0 if
        stored keys have no segment id.
    segment : SegmentTime or None
        The time range of the segment, if the segment has its own database.

    Attributes
    ----------
    versions : int
        The number of versions that were checked so far.
    """

    def __init__(
        self,
        kind: Kind,
        value_format: ValueFormat | None,
        id_bytes: int = 0,
        segment: SegmentTime | None = None,
    ) -> None:
        self.versions = 0
        self._kind = kind
        self._format = value_format
        self._id_bytes = id_bytes
        self._segment = segment
        self._candidates = kind.row_keys()
        self._is_versioned = kind.family == "versioned"
        self._value = _decoder(value_format)
        spec = kind.spec
        self._key_serde = None if spec is None else found(spec.key)
        self._value_serde = None if spec is None else found(spec.value)
        self._numbered = spec is None or spec.retain_duplicates or spec.shape != "window"
        self._denied = {"duplicates"} if kind.described and not self._numbered else set()
        if kind.described and spec is not None and spec.time_ordered and not spec.indexed:
            self._denied.add("index")
        self._has_index = "index" in self._denied

    def check(self, key: bytes, value: bytes) -> Iterator[Fault]:
        """Yield the faults of a row."""
        if self._is_versioned:
            yield from self._check_versioned(key, value)
            return
        user_key: bytes | None = key
        is_index = False
        if self._candidates:
            is_index = self._is_index(key)
            if is_index and "index" in self._denied:
                self._denied.remove("index")
                yield LEFT_OUT["index"]
            found = self._in_segment(key)
            if isinstance(found, Fault) and "duplicates" in self._denied:
                self._numbered = True
                again = self._in_segment(key)
                self._numbered = not isinstance(again, Fault)
                if self._numbered:
                    self._denied.remove("duplicates")
                    found = again
                    yield LEFT_OUT["duplicates"]
            if isinstance(found, Fault):
                yield found
                user_key = None
            else:
                user_key = found
        if user_key is not None:
            yield from _serde_fault("key", user_key, self._key_serde)
        if is_index:
            if value and self._kind.family is not None:
                why = f"the value of an index row must be empty, but has {len(value)} bytes"
                yield Fault("index row", why)
            elif value:
                yield from self._check_value(value)
            return
        yield from self._check_value(value)

    def _is_index(self, key: bytes) -> bool:
        if not key[self._id_bytes :].startswith(_INDEX):
            return False
        return self._has_index or any(one.pairs for one in self._candidates)

    def _check_value(self, value: bytes) -> Iterator[Fault]:
        try:
            data = self._value(value)
        except FormatError as error:
            assert self._format is not None
            why = f"the value does not have the format {self._format.name}: {error}"
            yield Fault("value", why)
            return
        if data is not None:
            yield from _serde_fault("value", data, self._value_serde)

    def _in_segment(self, key: bytes) -> bytes | Fault:
        """Return the user's key of a row in a segment, or the fault of the stored key."""
        segment = self._segment
        if self._id_bytes:
            number = int.from_bytes(key[: self._id_bytes], "big", signed=True)
            if len(key) < self._id_bytes or number < 0:
                return Fault("key", "the key does not begin with the id of a segment")
            width = self._kind.width_ms
            segment = SegmentTime(number * width, (number + 1) * width)
            key = key[self._id_bytes :]
        assert segment is not None
        reasons = []
        for rows in self._candidates:
            reason, user_key = _read_as(rows, key, segment, numbered=self._numbered)
            if reason is None:
                if len(self._candidates) > 1:
                    self._forget(key, segment)
                return user_key
            reasons.append(reason)
        return Fault("key", reasons[0])

    def _forget(self, key: bytes, segment: SegmentTime) -> None:
        """Remove the key layouts that do not fit this row."""
        self._candidates = [
            rows
            for rows in self._candidates
            if _read_as(rows, key, segment, numbered=self._numbered)[0] is None
        ]

    def _check_versioned(self, key: bytes, row: bytes) -> Iterator[Fault]:
        if len(key) < len(LATEST_PREFIX):
            yield Fault("key", "the key does not begin with the id of a segment")
            return
        user_key, number = key[8:], int.from_bytes(key[:8], "big", signed=True)
        yield from _serde_fault("key", user_key, self._key_serde)
        if number < -1:
            yield Fault("key", f"the segment id in the key is negative: {number}")
            return
        width = self._kind.width_ms
        versions: list[tuple[int, int | None, bytes | None]]
        try:
            if number == -1:
                time, data = decode_latest(row)
                versions = [(time, None, data)]
            else:
                versions = [*segment_rows.entries(row)]
        except FormatError as error:
            yield Fault("value", f"the value is not a row of versions: {error}")
            return
        self.versions += len(versions)
        for begin, end, value in versions:
            if begin < 0:
                why = f"the version begins at {begin}, before 1970"
                yield Fault("version", why, serious=False)
            if end is not None and width and segment_id(end, width) != number:
                yield Fault(
                    "version",
                    f"the version from {begin} to {end} belongs to the segment "
                    f"{segment_id(end, width)}, not {number}",
                )
            if value is not None:
                yield from self._check_value(value)


def _read_as(
    rows: RowKeys, key: bytes, segment: SegmentTime, *, numbered: bool
) -> tuple[str | None, bytes]:
    """Split a stored key by one layout. Return the fault of the key or None, and the user's key."""
    try:
        user_key, first, second = rows.split(key)
        time = rows.segment_time(key)
    except FormatError as error:
        shape = "session" if rows.schema.session else "window"
        return f"the key does not have the layout of a key of a {shape} store: {error}", b""
    if time < 0:
        return f"the time in the key is {time}, before 1970", b""
    if time < segment.start or (segment.end > segment.start and time >= segment.end):
        where = f"the segment from {segment.start} to {segment.end}"
        return f"the time in the key, {time}, is not in {where}", b""
    if rows.schema.session:
        if not 0 <= second <= first:
            return f"the session in the key ends at {first}, before its start at {second}", b""
    elif second < 0 or (second and not numbered):
        return f"the key has the sequence number {second}, but the store retains no duplicates", b""
    return None, user_key


def _serde_fault(part: str, data: bytes, serde: BuiltInSerde[object] | None) -> Iterator[Fault]:
    if serde is None or serde.name == "bytes":
        return
    try:
        serde.deserialize(data)
    except FormatError as error:
        why = f"the serde of the store's {part}s, {serde.name}, cannot read the {part}: {error}"
        yield Fault(f"{part} and serde", why, False)


def _decoder(value_format: ValueFormat | None) -> Callable[[bytes], bytes | None]:
    """Return a function that decodes a stored value to the user's bytes.

    If the format is unknown, the function returns None.
    """
    if value_format is None:
        return lambda _: None
    if value_format.headers and value_format.timestamped and not value_format.versioned:
        return _timestamp_and_headers
    if value_format.headers:
        return _only_headers
    if value_format.timestamped and not value_format.versioned:
        return _timestamp
    return lambda value: value


def _timestamp_and_headers(value: bytes) -> bytes:
    data, _, headers = decode_value_timestamp_headers(value)
    for _ in headers:  # iteration parses the headers
        pass
    return data


def _only_headers(value: bytes) -> bytes:
    data, headers = decode_aggregation_with_headers(value)
    for _ in headers:
        pass
    return data


def _timestamp(value: bytes) -> bytes:
    return decode_value_and_timestamp(value)[0]

"""What a store keeps of itself: position, offsets, stream time and its description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from kstore_core.engine import Namespace
from kstore_core.errors import CorruptionError, FormatDowngradeError, FormatError, SpecError
from kstore_core.offsets.entries import SPEC, STATUS, STREAM_TIME, Entries, StoreRecord, read_record
from kstore_core.offsets.position import decode_position, encode_position
from kstore_core.spec import StoredSpec
from kstore_core.testing.kinds import KINDS
from tests.fuzz.family import Family, Refused, tried
from tests.support.golden import GOLDEN, lines

DAMAGED = (CorruptionError, SpecError, FormatDowngradeError)


def check_position(data: bytes) -> None:
    found = tried(decode_position, data, refusals=(FormatError,))
    if not isinstance(found, Refused):
        again = encode_position(found)
        assert decode_position(again) == found
        assert list(decode_position(again)) == list(found)


def check_spec(data: bytes) -> None:
    found = tried(StoredSpec.parse, data, refusals=(SpecError, FormatDowngradeError))
    if not isinstance(found, Refused):
        described = json.dumps(found.describe()).encode()
        assert StoredSpec.parse(described) == found
        tried(found.spec, refusals=(SpecError,))


class _Rows:
    """A namespace of rows that are cut out of an input."""

    def __init__(self, data: bytes) -> None:
        self.rows: dict[bytes, bytes] = {}
        while len(data) >= 2:
            key, rest = data[2 : 2 + data[0] % 32], data[2 + data[0] % 32 :]
            value, data = rest[: data[1]], rest[data[1] :]
            self.rows[key] = value

    def scan(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield list(self.rows), list(self.rows.values())


def read(rows: _Rows) -> StoreRecord:
    return read_record(cast("Namespace", rows))


def check_record(data: bytes) -> None:
    rows = _Rows(data)
    found = tried(read, rows, refusals=DAMAGED)
    if isinstance(found, Refused):
        return
    written = Entries(
        offsets=cast("Any", found.offsets or None),
        position=found.position,
        stream_time=found.stream_time,
        spec=found.spec,
    ).rows(StoreRecord())
    again = _Rows(b"")
    again.rows = dict(zip(written.keys, cast("list[bytes]", written.values), strict=True))
    assert read(again) == found


def _row(key: bytes, value: bytes) -> bytes:
    return bytes([len(key), len(value)]) + key + value


_POSITIONS = [
    bytes.fromhex(case["bytes"])
    for case in lines(GOLDEN / "codec.jsonl")
    if case["kind"] == "position"
]
_SPECS = [
    json.dumps((kind.spec("s") if kind.shape == "key_value" else kind.spec("s", 90, 9)).describe())
    for kind in KINDS
]
_LONG = (41).to_bytes(8, "big")

FAMILY = Family(
    "entries",
    [check_position, check_spec, check_record],
    [
        *((0, data) for data in _POSITIONS),
        *((1, text.encode()) for text in _SPECS),
        (1, b"[" * 3000),
        (1, b'{"version":1e999,"name":"s"}'),
        *((2, _row(b"t-0", _LONG) + _row(b"position", data[:255])) for data in _POSITIONS),
        (2, _row(STATUS, _LONG) + _row(STREAM_TIME, _LONG) + _row(SPEC, b"{}")),
        (2, _row(b"kstore.newer", b"x") + _row("t-٣".encode(), _LONG)),
    ],
    cost=2,
)

"""Arrow columns of rows: as the rows one by one, or refused as a whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from kstore_core import arrow, codec, serdes
from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError
from kstore_core.serdes import BuiltInSerde
from tests.fuzz.family import Family, Refused, tried
from tests.fuzz.values import FAMILY as VALUES
from tests.fuzz.versions import FAMILY as VERSIONS

refused = partial(tried, refusals=(FormatError,))
_LATEST = b"\xff" * 8


def rows_of(data: bytes) -> list[bytes | None]:
    """Rows that are cut out of an input, each behind its size; 255 is a null."""
    rows: list[bytes | None] = []
    while data:
        size = data[0]
        rows.append(None if size == 255 else data[1 : 1 + size])
        data = data[1 if size == 255 else 1 + size :]
    return rows


def scalar(layout: str, row: bytes | None) -> tuple[Any, ...]:
    """Value, timestamp and headers of a row, None where it has none."""
    if row is None:
        return None, None, None
    if layout == "value_and_timestamp":
        value, timestamp = codec.decode_value_and_timestamp(row)
        return value, timestamp, None
    if layout == "aggregation_with_headers":
        value, headers = codec.decode_aggregation_with_headers(row)
        return value, None, list(headers)
    value, timestamp, headers = codec.decode_value_timestamp_headers(row)
    return value, timestamp, list(headers)


def check_layout(layout: Any, data: bytes) -> None:
    rows = rows_of(data)
    column = pa.array(rows, pa.binary())
    found = refused(partial(codec.decode_column, column, layout=layout))
    each = [refused(scalar, layout, row) for row in rows]
    assert isinstance(found, Refused) == any(isinstance(one, Refused) for one in each)
    split = refused(partial(codec.split_column, column, layout=layout))
    assert isinstance(found, Refused) or not isinstance(split, Refused)
    if isinstance(found, Refused):
        return
    wanted = [list(part) for part in zip(*each, strict=True)]  # type: ignore[arg-type]
    for part, of_rows in zip(found, wanted, strict=False):
        if part is not None:
            part.validate(full=True)
            assert [_pairs(one) for one in part.to_pylist()] == of_rows
    headers = None if layout == "value_and_timestamp" else found[2]
    times = None if layout == "aggregation_with_headers" else found[1]
    again = codec.encode_column(found[0], times, headers, layout=layout)
    for part, before in zip(codec.decode_column(again, layout=layout), found, strict=True):
        assert part is None or part.equals(before)


def _pairs(one: Any) -> Any:
    if isinstance(one, list):
        return [(header["key"], header["value"]) for header in one]
    return one


def check_versions(data: bytes) -> None:
    """Rows of a versioned store, keys and values in turns, as the records that they hold."""
    parts = [part or b"" for part in rows_of(data)]
    keys = [(part if at % 3 else _LATEST + part)[:40] for at, part in enumerate(parts[::2])]
    values = parts[1::2]
    keys = keys[: len(values)]
    arrays = pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    found = refused(partial(codec.explode_versions, *arrays, tombstones=True))
    each = [refused(_versions, *row) for row in zip(keys, values, strict=True)]
    assert isinstance(found, Refused) == any(isinstance(one, Refused) for one in each)
    if isinstance(found, Refused):
        return
    for part in found:
        part.validate(full=True)
    records = list(zip(*(part.to_pylist() for part in found), strict=True))
    wanted = [record for one in each if not isinstance(one, Refused) for record in one]
    assert sorted(map(repr, records)) == sorted(map(repr, wanted))


def _versions(row: bytes, value: bytes) -> list[tuple[Any, ...]]:
    segment, key = codec.split_versioned_key(row)
    if segment == -1:
        timestamp, latest = codec.decode_latest(value)
        return [(key, latest, timestamp, None)]
    return [(key, old, start, end) for start, end, old in segment_rows.entries(value)]


def check_serde(serde: BuiltInSerde[Any], data: bytes) -> None:
    """A column of a serde's is what the serde makes of each value; of JSON the text."""
    rows = rows_of(data)
    found = refused(arrow.to_typed, serde, pa.array(rows, pa.binary()))
    reads = serdes.UTF8 if serde is serdes.JSON else serde
    each = [None if row is None else refused(reads.deserialize, row) for row in rows]
    assert isinstance(found, Refused) == any(isinstance(one, Refused) for one in each)
    if not isinstance(found, Refused):
        found.validate(full=True)
        assert repr([_in_utc(value) for value in found.to_pylist()]) == repr(each)


def _in_utc(value: Any) -> Any:
    """A time of pyarrow has a time zone of another class."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


_LAYOUTS = ("value_timestamp_headers", "aggregation_with_headers", "value_and_timestamp")
CHECKS: list[Callable[[bytes], None]] = [
    *(partial(check_layout, layout) for layout in _LAYOUTS),
    check_versions,
    *(partial(check_serde, serde) for serde in serdes.BUILT_IN.values()),
]
_OF_VALUES = {1: 0, 2: 1, 3: 2}
"""By the check of a value, that of a column of them."""


def _column(*rows: bytes) -> bytes:
    return b"".join(bytes([len(row)]) + row for row in rows if len(row) < 255)


FAMILY = Family(
    "columns",
    CHECKS,
    [
        *(
            (_OF_VALUES[which], _column(data, data) + b"\xff")
            for which, data in VALUES.seeds[::3]
            if which in _OF_VALUES
        ),
        *((3, _column(b"\0" * 8 + b"k", data)) for which, data in VERSIONS.seeds if which == 0),
        *(
            (which, _column(b"\0\0\0\1", b"\0" * 8, "é".encode()))
            for which in range(4, len(CHECKS))
        ),
    ],
    cost=6,
)

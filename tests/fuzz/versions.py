"""Segment rows of versioned stores, and every operation on them, against a list of versions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from kstore_core.codec import segment_rows
from kstore_core.codec.conversions import upgrades
from kstore_core.errors import FormatError
from tests.fuzz.family import Family, Refused, tried
from tests.reference.segment_rows import SegmentRow
from tests.support.golden import GOLDEN, lines

refused = partial(tried, refusals=(FormatError,))
_SEGMENT = b"\0" * 8 + b"k"


def read(data: bytes) -> SegmentRow | None:
    """The row as a list; None where it is none."""
    found = refused(segment_rows.entries, data)
    if isinstance(found, Refused):
        return None
    return SegmentRow(found[0][1], [(start, value) for start, _, value in found])


def check_row(data: bytes) -> None:
    row = read(data)
    facts = (segment_rows.next_timestamp, segment_rows.min_timestamp, segment_rows.is_degenerate)
    if row is None:
        for fact in facts:
            refused(fact, data)
        refused(segment_rows.find_all, data, 0, 100)
        return
    assert read(row.encode()) == row  # a tombstone's size may be any negative number
    assert [fact(data) for fact in facts] == [row.end, row.start, row.degenerate]
    times = {time + by for time in (row.start, row.end, row.versions[0][0]) for by in (-1, 0, 1)}
    for time in sorted(time for time in times if -(2**63) <= time < 2**63):
        assert segment_rows.find_all(data, time, row.end) == row.find_all(time, row.end)
        if row.start <= time < row.end:
            assert segment_rows.find(data, time) == row.find(time)


def check_change(data: bytes) -> None:
    """A change that is not refused is the one that the list makes."""
    row = read(data[2:])
    if row is None or len(data) < 2:
        return
    index = data[1] % len(row.versions)
    step = (data[1] >> 4) + 1
    value = data[:1] if data[1] & 1 else None
    changes: list[tuple[str, tuple[Any, ...]]] = [
        ("update", (row.versions[index][0], value, index)),
        ("insert", (row.versions[index][0] + step, value, index)),
        ("insert_as_latest", (row.end, row.end + step, value)),
        ("insert_as_earliest", (row.start - step, value)),
    ]
    name, arguments = changes[data[0] % len(changes)]
    try:
        found = getattr(segment_rows, name)(data[2:], *arguments)
    except (FormatError, ValueError):  # the times do not fit the row
        return
    changed = copy.deepcopy(row)
    getattr(changed, name)(*arguments)
    assert read(found) == changed, (name, arguments)


def check_upgrade(data: bytes) -> None:
    row = read(data)
    found = refused(upgrades.versioned_to_headers, _SEGMENT, data)
    assert isinstance(found, Refused) == (row is None)
    if row is not None and not isinstance(found, Refused):
        wanted = [(time, None if v is None else b"\0" + v) for time, v in row.versions]
        assert read(found) == SegmentRow(row.end, wanted)


CHECKS: list[Callable[[bytes], None]] = [check_row, check_change, check_upgrade]
_ROWS = [
    bytes.fromhex(case["bytes"])
    for case in lines(GOLDEN / "codec.jsonl")
    if case["kind"] == "versioned_segment"
]

FAMILY = Family(
    "versions",
    CHECKS,
    [
        *((which, data) for data in _ROWS for which in (0, 2)),
        *((1, bytes([at % 5, at * 7 % 256]) + data) for at, data in enumerate(_ROWS * 5)),
    ],
)

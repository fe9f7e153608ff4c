"""Segment rows against lists of versions, operation by operation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError
from tests.reference.segment_rows import SegmentRow

VALUES = st.none() | st.binary(max_size=5)
STEPS = st.integers(1, 20)


class SegmentRowMachine(RuleBasedStateMachine):
    """Any sequence of operations leaves the bytes that the list of versions encodes to."""

    row: bytes
    model: SegmentRow

    @initialize(start=st.integers(-1000, 1000), step=st.integers(0, 20), value=VALUES)
    def begin(self, start: int, step: int, value: bytes | None) -> None:
        if step == 0:
            value = None
        self.row = segment_rows.new_row(value, start, start + step)
        self.model = SegmentRow(start + step, [(start, value)])

    @rule(gap=st.integers(-60, 20), step=STEPS, value=VALUES)
    def insert_as_latest(self, gap: int, step: int, value: bytes | None) -> None:
        start = self.model.end + gap
        self.row = segment_rows.insert_as_latest(self.row, start, start + step, value)
        self.model.insert_as_latest(start, start + step, value)

    @rule(step=STEPS, value=VALUES)
    def insert_as_earliest(self, step: int, value: bytes | None) -> None:
        timestamp = self.model.start - step
        self.row = segment_rows.insert_as_earliest(self.row, timestamp, value)
        self.model.insert_as_earliest(timestamp, value)

    @precondition(lambda self: not self.model.degenerate)
    @rule(data=st.data(), value=VALUES)
    def insert_or_update(self, data: st.DataObject, value: bytes | None) -> None:
        timestamp = data.draw(st.integers(self.model.start, self.model.end - 1))
        found = segment_rows.find(self.row, timestamp)
        assert found == self.model.find(timestamp)
        index, start, _, _ = found
        if start == timestamp or data.draw(st.booleans()):
            self.row = segment_rows.update(self.row, timestamp, value, index)
            self.model.update(timestamp, value, index)
        else:
            self.row = segment_rows.insert(self.row, timestamp, value, index)
            self.model.insert(timestamp, value, index)

    @precondition(lambda self: not self.model.degenerate)
    @rule(step=STEPS, value=VALUES)
    def insert_behind_the_last(self, step: int, value: bytes | None) -> None:
        timestamp, index = self.model.start - step, len(self.model.versions)
        self.row = segment_rows.insert(self.row, timestamp, value, index)
        self.model.insert(timestamp, value, index)

    @rule(low=st.integers(-1100, 1100), width=st.integers(-5, 200))
    def find_all(self, low: int, width: int) -> None:
        found = segment_rows.find_all(self.row, low, low + width)
        assert found == self.model.find_all(low, low + width)

    @invariant()
    def same_bytes(self) -> None:
        assert self.row == self.model.encode()
        assert segment_rows.entries(bytearray(self.row)) == self.model.entries()
        assert segment_rows.next_timestamp(self.row) == self.model.end
        assert segment_rows.min_timestamp(self.row) == self.model.start
        assert segment_rows.is_degenerate(self.row) == self.model.degenerate


TestSegmentRows = SegmentRowMachine.TestCase


ROW = segment_rows.insert_as_latest(segment_rows.new_row(b"old", 10, 20), 30, 40, b"new")


def test_worked_rows() -> None:
    assert ROW.hex() == (
        "0000000000000028000000000000000a"
        "000000000000001e00000003"
        "0000000000000014ffffffff"
        "000000000000000a00000003"
        "6f6c646e6577"
    )
    assert segment_rows.degenerate_row(50).hex() == "0000000000000032" * 3 + "ffffffff"
    assert segment_rows.entries(ROW) == [(30, 40, b"new"), (20, 30, None), (10, 20, b"old")]


def test_the_widest_times() -> None:
    low, high = -(2**63), 2**63 - 1
    row = segment_rows.new_row(b"v", low, high)
    assert segment_rows.find(row, low) == (0, low, high, b"v")
    assert segment_rows.find_all(row, low, high) == [(low, high, b"v")]
    assert segment_rows.insert_as_latest(row, low, 5, b"w") == segment_rows.new_row(b"w", low, 5)


@pytest.mark.parametrize("timestamp", [9, 40, -(2**63), 2**63 - 1])
def test_find_outside_the_row_is_refused(timestamp: int) -> None:
    with pytest.raises(ValueError, match=r"from 10 \(inclusive\) to 40 \(exclusive\)"):
        segment_rows.find(ROW, timestamp)
    with pytest.raises(ValueError, match=r"the timestamp -?[0-9]+ is not valid"):
        segment_rows.find(segment_rows.degenerate_row(10), 10)


def test_versions_out_of_place_are_refused() -> None:
    attempts: list[Callable[[], bytes]] = [
        lambda: segment_rows.new_row(b"", 1, 1),
        lambda: segment_rows.new_row(b"", 2, 1),
        lambda: segment_rows.insert_as_latest(ROW, 50, 50, b""),
        lambda: segment_rows.insert_as_earliest(ROW, 10, b""),
        lambda: segment_rows.insert(ROW, 40, b"", 0),
        lambda: segment_rows.insert(ROW, 30, b"", 0),
        lambda: segment_rows.insert(ROW, 30, b"", 1),
        lambda: segment_rows.insert(ROW, 10, b"", 3),
        lambda: segment_rows.update(ROW, 40, b"", 0),
        lambda: segment_rows.update(ROW, 20, b"", 0),
        lambda: segment_rows.update(ROW, 20, b"", 2),
        lambda: segment_rows.insert(segment_rows.degenerate_row(1), 0, b"", 1),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"greater than|is not valid"):
            attempt()
    for index in (-1, 4):
        with pytest.raises(IndexError, match=f"index {index} in a row of 3 versions"):
            segment_rows.insert(ROW, 35, b"", index)
    with pytest.raises(IndexError):
        segment_rows.update(ROW, 5, b"", 3)


CORRUPT = {
    "empty": b"",
    "no version": ROW[:27],
    "minimum that no version has": ROW[:15] + b"\x09" + ROW[16:],
    "cut off": ROW[:-1],
    "too long": ROW + b"\x00",
    "newest after the end": ROW[:7] + b"\x1e" + ROW[8:],
    "not newest first": ROW[:35] + b"\x1e" + ROW[36:],
    "size too large": ROW[:24] + b"\x7f" + ROW[25:],
    "value in a degenerate row": bytes(24) + bytes(4),
}


@pytest.mark.parametrize("row", CORRUPT.values(), ids=CORRUPT.keys())
def test_corrupt_rows_are_refused_by_everything(row: bytes) -> None:
    for operation in (
        lambda: segment_rows.next_timestamp(row),
        lambda: segment_rows.min_timestamp(row),
        lambda: segment_rows.is_degenerate(row),
        lambda: segment_rows.entries(row),
        lambda: segment_rows.find(row, 10),
        lambda: segment_rows.find_all(row, 0, 100),
        lambda: segment_rows.insert_as_latest(row, 50, 60, b""),
        lambda: segment_rows.insert_as_earliest(row, 5, b""),
        lambda: segment_rows.insert(row, 35, b"", 0),
        lambda: segment_rows.update(row, 35, b"", 0),
    ):
        with pytest.raises(FormatError, match="segment row: ") as caught:
            operation()
        assert caught.value.offset is not None


def test_any_negative_size_is_a_tombstone() -> None:
    row = ROW.replace(bytes.fromhex("ffffffff"), bytes.fromhex("fffffffe"))
    assert segment_rows.entries(row) == segment_rows.entries(ROW)


@given(st.binary(max_size=120), st.integers(0, 60), st.binary(min_size=1, max_size=3))
def test_mutated_rows_are_read_or_refused(tail: bytes, at: int, replacement: bytes) -> None:
    for row in (tail, ROW[:at] + replacement + ROW[at + len(replacement) :], ROW + tail):
        with contextlib.suppress(FormatError):
            for index, (start, end, value) in enumerate(segment_rows.entries(row)):
                if start < end:
                    assert segment_rows.find(row, start) == (index, start, end, value)

"""Stored values decoded at positions of several columns, against one decoded column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.codec import decode_column, encode_aggregation_with_headers, split_column
from kstore_core.codec.arrow.decoder import decode_gathered
from kstore_core.errors import FormatError

LAYOUT: Any = "aggregation_with_headers"
STORED = st.builds(
    encode_aggregation_with_headers,
    st.binary(max_size=20),
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=3),
)
COLUMNS = st.lists(st.lists(st.none() | STORED, max_size=6), min_size=1, max_size=4)


@given(COLUMNS, st.data(), st.sampled_from([pa.binary(), pa.large_binary()]), st.booleans())
def test_positions_are_decoded_in_their_order(
    columns: list[list[bytes | None]], data: st.DataObject, kind: pa.DataType, sliced: bool
) -> None:
    rows = [row for column in columns for row in column]
    places = st.integers(0, len(rows) - 1) if rows else st.nothing()
    chosen = data.draw(st.lists(st.none() | places, max_size=30))
    arrays = [
        pa.array([b"x", *column], kind)[1:] if sliced else pa.array(column, kind)
        for column in columns
    ]
    positions = pa.array(chosen, pa.int64())
    wanted = pa.array([None if at is None else rows[at] for at in chosen], pa.binary())
    values, times, headers = decode_gathered(arrays, positions, LAYOUT)
    assert (values, times, headers) == decode_column(wanted, layout=LAYOUT)
    values, _, headers = decode_gathered(arrays, positions, LAYOUT, headers=False)
    assert (values, headers) == (split_column(wanted, layout=LAYOUT)[0], None)
    assert decode_gathered(arrays, positions, None)[0] == wanted


def test_large_rows_are_decoded_where_they_are() -> None:
    """Rows of more than 64 MiB are not copied first."""
    rows = [encode_aggregation_with_headers(bytes([n]) * (1 << 20), []) for n in range(3)]
    positions = pa.array([n % 3 for n in range(70)])
    values, *_ = decode_gathered([pa.array(rows[:1]), pa.array(rows[1:])], positions, LAYOUT)
    assert all(values[n].as_py() == bytes([n % 3]) * (1 << 20) for n in (0, 1, 2, 35, 69))


def test_positions_are_integers() -> None:
    with pytest.raises(TypeError, match="must be int64"):
        decode_gathered([pa.array([b"a"])], pa.array([0], pa.timestamp("ms")), None)


def test_wrong_positions_and_rows_are_refused() -> None:
    columns = [pa.array([b"\0a"]), pa.array([], pa.binary()), pa.array([b"\0b", b"\3"])]
    for wrong in (-1, 3, 2**62):
        with pytest.raises(IndexError, match=f"row 1 has the position {wrong}, .* from 0 to 3"):
            decode_gathered(columns, pa.array([0, wrong]), LAYOUT)
    with pytest.raises(IndexError, match="row 0"):
        decode_gathered([], pa.array([0]), LAYOUT)
    assert decode_gathered([], pa.array([None], pa.int64()), LAYOUT)[0].to_pylist() == [None]
    with pytest.raises(FormatError, match="row 1: "):
        decode_gathered(columns, pa.array([1, 2]), LAYOUT)
    with pytest.raises(TypeError, match="rows: the column must be binary"):
        decode_gathered([pa.array([1])], pa.array([0]), LAYOUT)
    with pytest.raises(TypeError):
        decode_gathered(columns, pa.array([0.5]), LAYOUT)

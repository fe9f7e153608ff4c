"""Rows by key, as a user's function sees them."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.arrow import headers_type
from kstore_core.spark.map_state.rows import Groups

ROWS = st.lists(
    st.tuples(st.sampled_from([b"", b"a", b"b", b"ccc"]), st.none() | st.integers(0, 3)),
    max_size=25,
)


def table_of(rows: list[tuple[bytes, int | None]]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "number": pa.array([number for _, number in rows], pa.int64()),
            "place": pa.array(range(len(rows)), pa.int64()),
        }
    )


@settings(deadline=None)
@given(ROWS, st.booleans())
def test_the_rows_of_a_key_come_together_and_in_their_order(
    rows: list[tuple[bytes, int | None]], by_number: bool
) -> None:
    expected: dict[bytes, list[Any]] = defaultdict(list)
    for place, (key, number) in enumerate(rows):
        expected[key].append((key, number, place))
    if by_number:
        for of_key in expected.values():
            of_key.sort(key=lambda row: (row[1] is None, row[1]))
    table = table_of(rows)
    keys = table["key"].combine_chunks()
    groups = Groups(table, keys, ["number"] if by_number else [], "timestamp")
    found = {key: list(of_key) for key, of_key in groups}
    assert list(found) == list(expected)
    assert found == expected


def test_rows_are_a_sequence() -> None:
    table = table_of([(b"a", 1), (b"b", 2), (b"a", None), (b"a", 4)])
    (_, rows), (_, others) = Groups(table, table["key"].combine_chunks(), [], "timestamp")
    assert len(rows) == 3
    assert rows[0].number == 1
    assert rows[-1] == (b"a", 4, 3)
    assert rows[1:] == [(b"a", None, 2), (b"a", 4, 3)]
    assert [row.place for row in reversed(rows)] == [3, 2, 0]
    assert rows.column("number") == [1, None, 4]
    assert rows.to_arrow().to_pydict() == {
        "key": [b"a"] * 3,
        "number": [1, None, 4],
        "place": [0, 2, 3],
    }
    assert repr(others) == "<1 rows of key, number, place>"
    with pytest.raises(IndexError):
        others[1]
    with pytest.raises(
        KeyError, match="no column 'nothing'; their columns are: key, number, place"
    ):
        rows.column("nothing")


def test_headers_and_times_are_those_of_a_store() -> None:
    noon = datetime(2024, 1, 1, 12, 0, 0, 5_999, UTC)
    table = pa.table(
        {
            "key": pa.array([b"k"] * 3),
            "headers": pa.array([[("a", b"1"), ("a", None)], None, []], headers_type()),
            "at": pa.array(
                [noon, None, datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")
            ),
            "from": [1, 2, 3],
        }
    )
    keys = table["key"].combine_chunks()
    ((_, rows),) = Groups(table, keys, [], "timestamp")
    assert [list(headers) for headers in rows.column("headers")] == [
        [("a", b"1"), ("a", None)],
        [],
        [],
    ]
    assert rows[0].headers.last("a").value is None
    assert rows.column("at") == [noon, None, datetime(1969, 12, 31, tzinfo=UTC)]
    assert rows[0].at.tzinfo is UTC
    assert rows[1][3] == 2  # "from" is no name of a field
    ((_, in_millis),) = Groups(table, keys, [], "millis")
    assert in_millis.column("at") == [1_704_110_400_005, None, -86_400_000]


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("nullable", [True, False])
def test_headers_are_known_whatever_may_be_null(text: pa.DataType, nullable: bool) -> None:
    large = text == pa.large_string()
    pair = pa.struct(
        [
            pa.field("key", text, nullable),
            pa.field("value", pa.large_binary() if large else pa.binary(), nullable),
        ]
    )
    kind = (pa.large_list if large else pa.list_)(pa.field("element", pair, nullable))
    table = pa.table({"key": [b"k"], "headers": pa.array([[{"key": "a", "value": b"1"}]], kind)})
    ((_, rows),) = Groups(table, table["key"].combine_chunks(), [], "timestamp")
    assert list(rows[0].headers) == [("a", b"1")]


def test_what_only_looks_like_headers_is_a_list() -> None:
    for kind, value in (
        (pa.list_(pa.string()), ["a"]),
        (pa.list_(pa.struct([("k", pa.string()), ("v", pa.binary())])), [{"k": "a", "v": b"1"}]),
    ):
        table = pa.table({"key": [b"k"], "x": pa.array([value], kind)})
        ((_, rows),) = Groups(table, table["key"].combine_chunks(), [], "timestamp")
        assert rows[0].x == value

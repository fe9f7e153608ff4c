"""Windows and sessions as columns: the same as their items one by one, whatever the format."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kstore_core import Windowed, open_state, serdes, stores
from kstore_core.arrow import headers_type

TIMES = {"retention_ms": 1_000_000, "segment_interval_ms": 60_000}
SERDES = {"key": serdes.UTF8, "value": serdes.INT64}
WINDOWS = [stores.window, stores.timestamped_window, stores.timestamped_window_with_headers]
SESSIONS = [stores.session, stores.session_with_headers]
HEADERS = [("a", b"x"), ("a", None), ("", b"")]
SPANS = [("b", 0), ("a", 0), ("ab", 59_999), ("a", 60_000), ("", 200_000), ("a", 200_000)]

each_order = pytest.mark.parametrize("time_ordered", [False, True], ids=["by key", "by time"])


def rows_of(scan: Any) -> list[dict[str, Any]]:
    """The items of a scan, as the rows of its table."""
    found = []
    for at, record in scan:
        row = dict(zip(("key", "start", "end"), (at.key, at.start, at.end), strict=True))
        row["value"] = getattr(record, "value", getattr(record, "aggregation", record))
        if hasattr(record, "timestamp"):
            row["timestamp"] = record.timestamp
        if hasattr(record, "headers"):
            row["headers"] = [{"key": k, "value": v} for k, v in record.headers]
        found.append(row)
    return found


@each_order
@pytest.mark.parametrize("make", WINDOWS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("duplicates", [False, True])
def test_windows(make: Any, duplicates: bool, time_ordered: bool) -> None:
    spec = make(
        "w", window_size_ms=5_000, retain_duplicates=duplicates, time_ordered=time_ordered,
        **TIMES, **SERDES,
    )  # fmt: skip
    with open_state("nowhere", engine="memory") as state:
        store = state.open(spec)
        for number, (key, start) in enumerate(SPANS * 2):
            given = {"timestamp": number} if spec.format.timestamped else {}
            headers = {"headers": HEADERS[: number % 4]} if spec.format.headers else {}
            store.put(key, number, window_start=start, **given, **headers)
        for reverse in (False, True):
            table = store.fetch_all(0, 200_000, reverse=reverse).to_arrow()
            assert table.to_pylist() == rows_of(store.fetch_all(0, 200_000, reverse=reverse))
            assert table.num_rows == len(SPANS) * (2 if duplicates else 1)
        one = store.fetch("a", 1, None).to_arrow()
        wanted = rows_of(store.fetch_range("a", "a", 1, None))
        assert one.to_pylist() == [
            {name: cell for name, cell in row.items() if name not in ("key", "end")}
            for row in wanted
        ]
        _check_types(table.schema, spec)
        assert store.fetch_all(7, 8).to_arrow().schema == table.schema
        frame = table.to_pandas()
        assert frame["end"].tolist() == [start + 5_000 for start in frame["start"]]


@each_order
@pytest.mark.parametrize("make", SESSIONS, ids=lambda make: make.__name__)
def test_sessions(make: Any, time_ordered: bool) -> None:
    spec = make("s", time_ordered=time_ordered, **TIMES, **SERDES)
    with open_state("nowhere", engine="memory") as state:
        store = state.open(spec)
        for number, (key, start) in enumerate(SPANS):
            headers = {"headers": HEADERS[: number % 4]} if spec.format.headers else {}
            store.put(Windowed(key, start, start + number), number, **headers)
        for reverse in (False, True):
            scans = [store.fetch_range(None, None, reverse=reverse) for _ in range(2)]
            table = scans[0].to_arrow()
            assert table.to_pylist() == rows_of(scans[1])
            assert table.num_rows == len(SPANS)
        assert store.fetch("a").to_arrow().to_pylist() == rows_of(store.fetch("a"))
        _check_types(table.schema, spec)
        assert store.fetch("nobody").to_arrow().schema == table.schema
        assert table.to_pandas()["start"].tolist() == table["start"].to_pylist()


def test_what_is_left_of_a_scan_is_a_table() -> None:
    spec = stores.window("w", window_size_ms=5_000, **TIMES, **SERDES)
    with open_state("nowhere", engine="memory") as state:
        store = state.open(spec)
        for key, start in SPANS:
            store.put(key, 1, window_start=start)
        scan = store.all()
        first, _ = next(scan)
        assert (first.key, scan.to_arrow().num_rows) == ("a", len(SPANS) - 1)


def _check_types(schema: pa.Schema, spec: Any) -> None:
    types = {"key": pa.string(), "start": pa.int64(), "end": pa.int64(), "value": pa.int64()}
    if spec.format.timestamped:
        types["timestamp"] = pa.int64()
    if spec.format.headers:
        types["headers"] = headers_type()
    assert dict(zip(schema.names, schema.types, strict=True)) == types

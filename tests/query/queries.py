"""A query of every type."""

from __future__ import annotations

from kstore_core.query import (
    KeyQuery,
    MultiVersionedKeyQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeQuery,
    TimestampedRangeWithHeadersQuery,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)

QUERIES = [
    KeyQuery(b"k"),
    KeyQuery("k", skip_cache=True),
    RangeQuery(),
    RangeQuery(1, 2, "descending"),
    TimestampedKeyQuery("k"),
    TimestampedRangeQuery(hi="k"),
    TimestampedKeyWithHeadersQuery("k", skip_cache=True),
    TimestampedRangeWithHeadersQuery(order="ascending"),
    WindowKeyQuery("k", 1, 2),
    WindowRangeQuery.with_window_start_range(1, 2),
    WindowRangeQuery.with_key("k"),
    TimestampedWindowKeyWithHeadersQuery("k", 1, 2),
    TimestampedWindowRangeWithHeadersQuery.with_window_start_range(1, 2),
    TimestampedWindowRangeWithHeadersQuery.with_key("k"),
    VersionedKeyQuery("k", 5),
    MultiVersionedKeyQuery("k", 5, 6, "ascending"),
]

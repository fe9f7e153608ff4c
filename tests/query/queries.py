"""A query of every type."""

from __future__ import annotations

from kstore_core import query

QUERIES = [
    query.KeyQuery(b"k"),
    query.KeyQuery("k", skip_cache=True),
    query.RangeQuery(),
    query.RangeQuery(1, 2, "descending"),
    query.TimestampedKeyQuery("k"),
    query.TimestampedRangeQuery(hi="k"),
    query.TimestampedKeyWithHeadersQuery("k", skip_cache=True),
    query.TimestampedRangeWithHeadersQuery(order="ascending"),
    query.WindowKeyQuery("k", 1, 2),
    query.WindowRangeQuery.with_window_start_range(1, 2),
    query.WindowRangeQuery.with_key("k"),
    query.TimestampedWindowKeyWithHeadersQuery("k", 1, 2),
    query.TimestampedWindowRangeWithHeadersQuery.with_window_start_range(1, 2),
    query.TimestampedWindowRangeWithHeadersQuery.with_key("k"),
    query.VersionedKeyQuery("k", 5),
    query.MultiVersionedKeyQuery("k", 5, 6, "ascending"),
]

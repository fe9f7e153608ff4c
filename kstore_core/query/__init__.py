"""Interactive queries of KIP-796: the queries, the bounds of positions, and the results."""

from typing import TYPE_CHECKING

from kstore_core.lazy import lazily

if TYPE_CHECKING:
    from kstore_core.offsets.position import Position
    from kstore_core.query.bound import PositionBound
    from kstore_core.query.queries import (
        KeyQuery,
        MultiVersionedKeyQuery,
        Query,
        RangeQuery,
        ResultOrder,
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
    from kstore_core.query.result import FailureReason, QueryResult, ReadOnlyRecord

__all__ = [
    "FailureReason",
    "KeyQuery",
    "MultiVersionedKeyQuery",
    "Position",
    "PositionBound",
    "Query",
    "QueryResult",
    "RangeQuery",
    "ReadOnlyRecord",
    "ResultOrder",
    "TimestampedKeyQuery",
    "TimestampedKeyWithHeadersQuery",
    "TimestampedRangeQuery",
    "TimestampedRangeWithHeadersQuery",
    "TimestampedWindowKeyWithHeadersQuery",
    "TimestampedWindowRangeWithHeadersQuery",
    "VersionedKeyQuery",
    "WindowKeyQuery",
    "WindowRangeQuery",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        **dict.fromkeys(__all__, "query.queries"),
        **dict.fromkeys(["FailureReason", "QueryResult", "ReadOnlyRecord"], "query.result"),
        "Position": "offsets.position",
        "PositionBound": "query.bound",
    },
)

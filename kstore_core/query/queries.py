"""The queries of KIP-796 and later KIPs. They are small frozen objects that can be pickled.

The names are those of Kafka Streams. The page docs/queries.md lists the queries that each kind of
store answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Self, TypeVar, get_args

from kstore_core.checks import check_choice
from kstore_core.types import Time, to_millis

__all__ = [
    "KeyQuery",
    "MultiVersionedKeyQuery",
    "Query",
    "RangeQuery",
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

K = TypeVar("K")

ResultOrder = Literal["any", "ascending", "descending"]
"""The order of the rows of a result. ``"any"`` is the default order of the query."""


class Query:
    """The base class of all queries.

    If a store does not support a query, the store returns a failed result. A versioned store raises
    UnsupportedError for a KeyQuery or RangeQuery.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the fields, and convert times to milliseconds."""
        for name in ("as_of", "from_ts", "to_ts"):
            time = getattr(self, name, None)
            if time is not None:
                object.__setattr__(self, name, to_millis(time))
        earliest, latest = getattr(self, "from_ts", None), getattr(self, "to_ts", None)
        if earliest is not None and latest is not None and earliest > latest:
            raise ValueError(f"from_ts {earliest} lies after to_ts {latest}")
        check_choice("order", getattr(self, "order", "any"), get_args(ResultOrder))


@dataclass(frozen=True, slots=True)
class _OfKey(Query, Generic[K]):
    """The base class of queries for one key. The key must not be None."""

    key: K

    def __post_init__(self) -> None:
        Query.__post_init__(self)
        if self.key is None:
            raise TypeError("key cannot be None")


@dataclass(frozen=True, slots=True)
class _Point(_OfKey[K]):
    skip_cache: bool = False


@dataclass(frozen=True, slots=True)
class _Range(Query, Generic[K]):
    lo: K | None = None
    hi: K | None = None
    order: ResultOrder = "any"


@dataclass(frozen=True, slots=True)
class _WindowsOfKey(_OfKey[K]):
    from_ts: Time | None = None
    to_ts: Time | None = None


@dataclass(frozen=True, slots=True)
class _Windows(Query, Generic[K]):
    key: K | None = None
    from_ts: Time | None = None
    to_ts: Time | None = None

    @classmethod
    def with_window_start_range(cls, from_ts: Time, to_ts: Time) -> Self:
        """Return a query for the windows of all keys that start in a range of times.

        ``from_ts`` and ``to_ts`` are both inclusive.
        """
        return cls(None, from_ts, to_ts)

    @classmethod
    def with_key(cls, key: K) -> Self:
        """Return a query for all sessions of a key."""
        if key is None:
            raise TypeError("key cannot be None")
        return cls(key)


@dataclass(frozen=True, slots=True)
class KeyQuery(_Point[K]):
    """A query for the value of a key. The result is None if the key has no value.

    Attributes
    ----------
    key
        The key, which must not be None.
    skip_cache : bool
        If True, read the store without its cache. The result then lacks writes that are only in the
        cache.
    """


@dataclass(frozen=True, slots=True)
class RangeQuery(_Range[K]):
    """A query for the items with ``lo <= key <= hi``. Each item is a pair ``(key, value)``.

    Attributes
    ----------
    lo, hi : key or None
        The first and the last key, both inclusive; no limit if None.
    order : {"any", "ascending", "descending"}
        The order of the serialised keys; ``"any"`` is ascending.
    """


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(_Point[K]):
    """A query like :class:`KeyQuery` whose result is a ``ValueAndTimestamp`` or None."""


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(_Range[K]):
    """A query like :class:`RangeQuery` whose values are of the type ``ValueAndTimestamp``."""


@dataclass(frozen=True, slots=True)
class TimestampedKeyWithHeadersQuery(_Point[K]):
    """A query like :class:`KeyQuery` whose result is a `ReadOnlyRecord` or None.

    The query is part of KIP-1271.
    """


@dataclass(frozen=True, slots=True)
class TimestampedRangeWithHeadersQuery(_Range[K]):
    """A query like :class:`RangeQuery` whose items are of the type `ReadOnlyRecord`.

    The query is part of KIP-1271.
    """


@dataclass(frozen=True, slots=True)
class WindowKeyQuery(_WindowsOfKey[K]):
    """A query for the windows of a key with ``from_ts <= start <= to_ts``.

    Each item is a pair ``(start, value)``.

    Attributes
    ----------
    key
        The key, which must not be None.
    from_ts, to_ts : int, datetime or None
        The first and the last start of a window, both inclusive. The query converts them to ms
        since the epoch. As in Kafka Streams, no store answers the query if one end is None.
    """


@dataclass(frozen=True, slots=True)
class WindowRangeQuery(_Windows[K]):
    """A query for windows of all keys, or for all sessions of a key.

    Each item is a pair ``(Windowed, value)``. Make the query with :meth:`with_window_start_range`
    for a window store, or with :meth:`with_key` for a session store.

    Attributes
    ----------
    key
        The key of the sessions; None in a query for windows.
    from_ts, to_ts : int or None
        The first and the last start of a window, inclusive, in ms since the epoch; None in a query
        for sessions.
    """


@dataclass(frozen=True, slots=True)
class TimestampedWindowKeyWithHeadersQuery(_WindowsOfKey[K]):
    """A query like :class:`WindowKeyQuery` whose items are of the type `ReadOnlyRecord`."""


@dataclass(frozen=True, slots=True)
class TimestampedWindowRangeWithHeadersQuery(_Windows[K]):
    """A query like :class:`WindowRangeQuery` whose items are of the type `ReadOnlyRecord`.

    For a session, the timestamp of the record is the end of the session.
    """


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery(_OfKey[K]):
    """A query for one version of a key. The result is None if there is no such version.

    Attributes
    ----------
    key
        The key, which must not be None.
    as_of : int, datetime or None
        The time at which the version was valid; the latest version if None. The query converts the
        time to ms since the epoch.
    """

    as_of: Time | None = None


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery(_OfKey[K]):
    """A query for the versions of a key that were valid at some time from ``from_ts`` to ``to_ts``.

    Attributes
    ----------
    key
        The key, which must not be None.
    from_ts, to_ts : int, datetime or None
        The range of times, both ends inclusive; no limit if None. The query converts the times to
        ms since the epoch.
    order : {"any", "ascending", "descending"}
        The order of the versions' times; ``"any"`` is descending.
    """

    from_ts: Time | None = None
    to_ts: Time | None = None
    order: ResultOrder = "any"

"""Queries: small frozen values that can be pickled (KIP-796 and later ones).

The names are Kafka Streams'; docs/queries.md has the table of stores and queries.
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
"""The order of rows. ``"any"`` is the default order of the query."""


class Query:
    """Base of all queries. A store that does not support a query returns a failed result."""

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
    """A query of one key, which is not None."""

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
        """The windows of all keys that start from ``from_ts`` to ``to_ts``, both inclusive."""
        return cls(None, from_ts, to_ts)

    @classmethod
    def with_key(cls, key: K) -> Self:
        """Return all sessions of a key."""
        if key is None:
            raise TypeError("key cannot be None")
        return cls(key)


@dataclass(frozen=True, slots=True)
class KeyQuery(_Point[K]):
    """The value of a key, or None.

    Attributes
    ----------
    key
    skip_cache : bool
        Read below the cache, if the store has one.
    """


@dataclass(frozen=True, slots=True)
class RangeQuery(_Range[K]):
    """The items with ``lo <= key <= hi`` as (key, value); None leaves an end open.

    Attributes
    ----------
    lo, hi : key or None
    order : {"any", "ascending", "descending"}
        The order of the serialised keys; any is ascending.
    """


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(_Point[K]):
    """As :class:`KeyQuery`; the value with its time, a ``ValueAndTimestamp``."""


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(_Range[K]):
    """As :class:`RangeQuery`; values with their times, ``ValueAndTimestamp``."""


@dataclass(frozen=True, slots=True)
class TimestampedKeyWithHeadersQuery(_Point[K]):
    """Like :class:`KeyQuery`, with a :class:`~kstore_core.query.ReadOnlyRecord` (KIP-1271)."""


@dataclass(frozen=True, slots=True)
class TimestampedRangeWithHeadersQuery(_Range[K]):
    """Like :class:`RangeQuery`, with a :class:`~kstore_core.query.ReadOnlyRecord` per row.

    The query is part of KIP-1271.
    """


@dataclass(frozen=True, slots=True)
class WindowKeyQuery(_WindowsOfKey[K]):
    """The windows of a key with ``from_ts <= start <= to_ts``, as (start, value).

    Attributes
    ----------
    key
    from_ts, to_ts : int, datetime or None
        Stored as milliseconds. No store answers if one is None, as in Kafka Streams.
    """


@dataclass(frozen=True, slots=True)
class WindowRangeQuery(_Windows[K]):
    """Windows of all keys, or sessions of one, as (Windowed, value).

    Make one with :meth:`with_window_start_range` for a window store, or with :meth:`with_key` for a
    session store.

    Attributes
    ----------
    key
        None for windows.
    from_ts, to_ts : int or None
        Milliseconds; None for sessions.
    """


@dataclass(frozen=True, slots=True)
class TimestampedWindowKeyWithHeadersQuery(_WindowsOfKey[K]):
    """Like :class:`WindowKeyQuery`, with a :class:`~kstore_core.query.ReadOnlyRecord` per row."""


@dataclass(frozen=True, slots=True)
class TimestampedWindowRangeWithHeadersQuery(_Windows[K]):
    """Like :class:`WindowRangeQuery`, with a :class:`~kstore_core.query.ReadOnlyRecord` per row.

    The time of a session's record is the session's end.
    """


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery(_OfKey[K]):
    """The version of a key, or None.

    Attributes
    ----------
    key
    as_of : int, datetime or None
        The time at which it was valid; None for the latest. Stored as milliseconds.
    """

    as_of: Time | None = None


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery(_OfKey[K]):
    """The versions of a key that were valid at some time from ``from_ts`` to ``to_ts``.

    Attributes
    ----------
    key
    from_ts, to_ts : int, datetime or None
        Both inclusive; None leaves an end open. Stored as milliseconds.
    order : {"any", "ascending", "descending"}
        The order of their times; any is descending.
    """

    from_ts: Time | None = None
    to_ts: Time | None = None
    order: ResultOrder = "any"

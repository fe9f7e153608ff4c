"""The forms of values that queries return: a value, a value with its time, or a whole record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kstore_core.errors import QueryError
from kstore_core.query.result import FailureReason, ReadOnlyRecord
from kstore_core.spec import StoreSpec
from kstore_core.types import ValueAndTimestamp

__all__ = ["Form", "Unanswered", "plain", "read_only", "timed", "timed_where_kept"]

_Item = Callable[[bytes, Any], tuple[Any, Any]]
_Table = Callable[[list[bytes], list[Any], bool], Any]


class Unanswered(Exception):  # noqa: N818 - it becomes a failed result and is never raised to users
    """The error for a query that a store cannot answer. Its text is the reason."""


@dataclass(frozen=True, slots=True)
class Form:
    """The conversion of a store's items to the items that a query returns.

    Attributes
    ----------
    make : callable
        A function with the arguments ``key, value`` that returns the query's value. The function
        is not called if the value is None.
    whole : bool
        True if the query's value contains the key, so that an item is only this value. False if an
        item is the pair of a key and this value.
    unwanted : tuple of str
        The columns of the store that an Arrow table of the query does not have.
    """

    make: Callable[[Any, Any], Any]
    whole: bool = False
    unwanted: tuple[str, ...] = ()

    def item(self, item: _Item) -> Callable[[bytes, Any], Any]:
        """Return a function that converts a row to an item of the query.

        ``item`` converts a row to an item of the store.
        """
        make, whole = self.make, self.whole

        def made(row: bytes, raw: Any) -> Any:
            key, value = item(row, raw)
            if value is not None:
                value = make(key, value)
            return value if whole else (key, value)

        return made

    def table(self, table: _Table) -> _Table:
        """Return a function that converts rows to the columns of the query.

        ``table`` converts rows to the columns of the store.
        """

        def made(keys: list[bytes], raws: list[Any], headers: bool) -> Any:
            import pyarrow.compute as pc

            columns = table(keys, raws, headers and "headers" not in self.unwanted)
            if self.whole and "timestamp" in columns.column_names:
                earliest = pc.min(columns["timestamp"]).as_py()
                if earliest is not None and earliest < 0:
                    raise _no_time("a row", earliest)
            unwanted = [name for name in self.unwanted if name in columns.column_names]
            return columns.drop_columns(unwanted)

        return made


def plain(spec: StoreSpec) -> Form:
    """Return the form of a query that returns values without timestamps and headers."""
    if not (spec.format.timestamped or spec.format.headers):
        return Form(_as_it_is)
    bare = attrgetter("aggregation" if spec.shape == "session" else "value")
    return Form(lambda _, value: bare(value), unwanted=("timestamp", "headers"))


def timed(spec: StoreSpec) -> Form:
    """Return the form of a query that returns values with timestamps.

    Raise Unanswered if the store has no timestamps.
    """
    if not spec.format.timestamped:
        raise Unanswered(f"the format {spec.format.name!r} stores no timestamps")
    return Form(_timed, unwanted=("headers",)) if spec.format.headers else Form(_as_it_is)


def timed_where_kept(spec: StoreSpec) -> Form:
    """Return the form of a query that returns values, with timestamps if the store has them."""
    return timed(spec) if spec.format.timestamped else plain(spec)


def read_only(spec: StoreSpec) -> Form:
    """Return the form of a query that returns records with timestamps and headers.

    Raise Unanswered if the store has no headers.
    """
    if not spec.format.headers:
        raise Unanswered(f"the format {spec.format.name!r} stores no headers")
    return Form(_session_record if spec.shape == "session" else _record, whole=True)


def _as_it_is(_: Any, value: Any) -> Any:
    return value


def _timed(_: Any, value: Any) -> ValueAndTimestamp[Any]:
    return ValueAndTimestamp(value.value, value.timestamp)


def _record(key: Any, value: Any) -> ReadOnlyRecord[Any, Any]:
    if value.timestamp < 0:
        raise _no_time(f"the key {key!r}", value.timestamp)
    return ReadOnlyRecord(key, value.value, value.timestamp, value.headers)


def _session_record(session: Any, value: Any) -> ReadOnlyRecord[Any, Any]:
    return ReadOnlyRecord(session, value.aggregation, session.end, value.headers)


def _no_time(what: str, timestamp: int) -> QueryError:
    return QueryError(
        f"the timestamp of {what} is {timestamp}, because its value was written before "
        "the store had timestamps. A query for records cannot return such a value. Use a query "
        "without WithHeaders in its name, or read the store directly",
        FailureReason.STORE_EXCEPTION,
    )

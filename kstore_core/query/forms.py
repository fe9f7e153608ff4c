"""The forms of a query's items: the plain value, the value with its time, or a whole record."""

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


class Unanswered(Exception):  # noqa: N818 - no error: it becomes a result
    """The store does not answer this query; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Form:
    """The conversion of a store's items to a query's.

    Attributes
    ----------
    make : callable
        Makes the query's value: ``make(key, value)``, for a value that is not None.
    whole : bool
        True if the made value contains the key and is the whole item.
    unwanted : tuple of str
        The columns that an Arrow table leaves out.
    """

    make: Callable[[Any, Any], Any]
    whole: bool = False
    unwanted: tuple[str, ...] = ()

    def item(self, item: _Item) -> Callable[[bytes, Any], Any]:
        """Return the query's conversion of a row to an item, made from the store's."""
        make, whole = self.make, self.whole

        def made(row: bytes, raw: Any) -> Any:
            key, value = item(row, raw)
            if value is not None:
                value = make(key, value)
            return value if whole else (key, value)

        return made

    def table(self, table: _Table) -> _Table:
        """Return the query's conversion of rows to columns, made from the store's."""

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
    """Return the value alone."""
    if not (spec.format.timestamped or spec.format.headers):
        return Form(_as_it_is)
    bare = attrgetter("aggregation" if spec.shape == "session" else "value")
    return Form(lambda _, value: bare(value), unwanted=("timestamp", "headers"))


def timed(spec: StoreSpec) -> Form:
    """Return the value with its time; Unanswered if the store keeps no times."""
    if not spec.format.timestamped:
        raise Unanswered(f"the format {spec.format.name!r} stores no timestamps")
    return Form(_timed, unwanted=("headers",)) if spec.format.headers else Form(_as_it_is)


def timed_where_kept(spec: StoreSpec) -> Form:
    """Return the value, with its time if the store keeps times."""
    return timed(spec) if spec.format.timestamped else plain(spec)


def read_only(spec: StoreSpec) -> Form:
    """Return the whole record; Unanswered if the store keeps no headers."""
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
        f"the time of {what} is {timestamp}: it was written before its store kept times, so it "
        "cannot be a record; use a query without WithHeaders, or read the store itself",
        FailureReason.STORE_EXCEPTION,
    )

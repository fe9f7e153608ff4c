"""The handlers of queries, by the shape of the store and the type of the query.

A store answers the same queries as a store of its shape in Kafka Streams. A handler checks the
query, serialises its key, and returns a function that reads the store. An error in the query is
raised to the caller, and an error of the store becomes a failed result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kstore_core.errors import UnsupportedError
from kstore_core.query import queries
from kstore_core.query.forms import (
    Form,
    Unanswered,
    plain,
    read_only,
    timed,
    timed_where_kept,
)
from kstore_core.query.parts import StoreParts
from kstore_core.spec import StoreSpec
from kstore_core.tables import Bounds
from kstore_core.tables.scan import Scan

__all__ = ["SCANS", "reading"]

_Read = Callable[[], Any]
_Handler = Callable[[StoreParts, Any], _Read]
_FormOf = Callable[[StoreSpec], Form]

_MAX_TIME = 2**63 - 1


def reading(store: StoreParts, query: queries.Query) -> _Read:
    """Return a function that reads the store and returns the answer to a query.

    Raises
    ------
    Unanswered
        The store does not support the query.
    UnsupportedError
        The store is versioned, and Kafka Streams reserves this type of query for a later release.
    """
    handler = _HANDLERS[store.spec.shape].get(type(query))
    if handler is None:
        raise Unanswered(f"{store.spec.shape} stores do not support this query")
    return handler(store, query)


def _key(form_of: _FormOf) -> _Handler:
    def handler(store: StoreParts, query: Any) -> _Read:
        form = form_of(store.spec)
        raw_key = store.values.raw_key(query.key)
        table = store.context.cache.below if _skips_cache(store, query) else store.table

        def read() -> Any:
            raw = table.get(raw_key)
            value = None if raw is None else store.values.read(raw, query.key)
            return None if value is None else form.make(query.key, value)

        return read

    return handler


def _skips_cache(store: StoreParts, query: Any) -> bool:
    return query.skip_cache and store.context.cache is not None


def _range(form_of: _FormOf) -> _Handler:
    def handler(store: StoreParts, query: Any) -> _Read:
        form = form_of(store.spec)
        first = None if query.lo is None else store.values.raw_key(query.lo)
        last = None if query.hi is None else store.values.raw_key(query.hi) + b"\0"
        bounds = Bounds(first, last, query.order == "descending")
        table, item, columns = (
            store.table,
            form.item(store.values.item),
            form.table(store.values.table),
        )
        return lambda: Scan(table.rows, table.scan(bounds), item, columns)

    return handler


def _window_key(form_of: _FormOf, *, whole: bool = False) -> _Handler:
    def handler(store: StoreParts, query: Any) -> _Read:
        earliest, latest = _closed(query)
        form, rows, raw = form_of(store.spec), store.rows, store.values.raw_key(query.key)
        item = form.item(rows.item if whole else rows.timed)
        columns = form.table(rows.table if whole else rows.timed_table)
        return lambda: store.fetch(item, columns, raw, raw, earliest, latest)

    return handler


def _window_range(form_of: _FormOf) -> _Handler:
    def handler(store: StoreParts, query: Any) -> _Read:
        if query.key is not None:
            raise Unanswered("a window store needs a query made by with_window_start_range()")
        earliest, latest = _closed(query)
        form, rows = form_of(store.spec), store.rows
        item, columns = form.item(rows.item), form.table(rows.table)
        return lambda: store.fetch(item, columns, None, None, earliest, latest)

    return handler


def _closed(query: Any) -> tuple[int, int]:
    if query.from_ts is None or query.to_ts is None:
        raise Unanswered("the query needs both ends of its range of times, from_ts and to_ts")
    return query.from_ts, query.to_ts


def _sessions(form_of: _FormOf) -> _Handler:
    def handler(store: StoreParts, query: Any) -> _Read:
        if query.key is None:
            raise Unanswered("a session store needs a query made by with_key()")
        form, rows, raw = form_of(store.spec), store.rows, store.values.raw_key(query.key)
        item, columns = form.item(rows.item), form.table(rows.table)
        return lambda: store.fetch(item, columns, raw, raw, 0, _MAX_TIME)

    return handler


def _version(store: StoreParts, query: queries.VersionedKeyQuery[Any]) -> _Read:
    raw_key, as_of, table = store.values.raw_key(query.key), query.as_of, store.table

    def read() -> Any:
        version = table.get(raw_key) if as_of is None else table.get_as_of(raw_key, as_of)
        return None if version is None else store.values.record(*version, query.key)

    return read


def _versions(store: StoreParts, query: queries.MultiVersionedKeyQuery[Any]) -> _Read:
    raw_key, table, rows = store.values.raw_key(query.key), store.table, store.table.rows.rows

    def read() -> Any:
        versions = table.history(
            raw_key, query.from_ts, query.to_ts, reverse=query.order != "ascending"
        )
        chunks = iter([([raw_key] * len(versions), versions)] if versions else ())
        return Scan(
            rows,
            chunks,
            lambda _, version: store.values.record(*version, query.key),
            store.values.table,
        )

    return read


def _reserved(store: StoreParts, query: queries.Query) -> NoReturn:
    raise UnsupportedError(
        f"the versioned store {store.spec.name!r} cannot answer a {type(query).__name__}; use "
        "VersionedKeyQuery(key), MultiVersionedKeyQuery(key), or store.range(lo, hi, as_of=…)"
    )


_HANDLERS: Mapping[str, Mapping[type, _Handler]] = {
    "key_value": {
        queries.KeyQuery: _key(plain),
        queries.RangeQuery: _range(plain),
        queries.TimestampedKeyQuery: _key(timed),
        queries.TimestampedRangeQuery: _range(timed),
        queries.TimestampedKeyWithHeadersQuery: _key(read_only),
        queries.TimestampedRangeWithHeadersQuery: _range(read_only),
    },
    "versioned": {
        queries.KeyQuery: _reserved,
        queries.RangeQuery: _reserved,
        queries.VersionedKeyQuery: _version,
        queries.MultiVersionedKeyQuery: _versions,
    },
    "window": {
        queries.WindowKeyQuery: _window_key(timed_where_kept),
        queries.WindowRangeQuery: _window_range(timed_where_kept),
        queries.TimestampedWindowKeyWithHeadersQuery: _window_key(read_only, whole=True),
        queries.TimestampedWindowRangeWithHeadersQuery: _window_range(read_only),
    },
    "session": {
        queries.WindowRangeQuery: _sessions(plain),
        queries.TimestampedWindowRangeWithHeadersQuery: _sessions(read_only),
    },
}

_POINTS = (
    queries.KeyQuery,
    queries.TimestampedKeyQuery,
    queries.TimestampedKeyWithHeadersQuery,
    queries.VersionedKeyQuery,
)
SCANS = {kind for handlers in _HANDLERS.values() for kind in handlers} - set(_POINTS)
"""The types of queries whose result is a scan."""

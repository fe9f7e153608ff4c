"""The operations of the golden traces on a store: one JSON object in, one JSON result out.

Bytes are hex, headers are ``[[key, hex | null], …]``, sessions and windows ``{key, start, end}``.
"""

from __future__ import annotations

from typing import Any

from kstore_core import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
)
from tests.support.golden import unhex, unhex_headers

__all__ = ["apply", "shown", "value_of"]

Operation = dict[str, Any]


def apply(store: Any, operation: Operation) -> Any:
    """Run an operation; what the store raises is raised."""
    run = {"key_value": _key_value, "versioned": _versioned, "window": _window, "session": _session}
    return run[store.spec.shape](store, operation)


def value_of(given: Any) -> Any:
    """A value of a trace, as the wrapper that its fields make; None is None."""
    if not isinstance(given, dict):
        return unhex(given)
    data = unhex(given["value"])
    if "headers" not in given:
        return ValueAndTimestamp(data, given["timestamp"])
    headers = unhex_headers(given["headers"])
    if "timestamp" not in given:
        return AggregationWithHeaders(data, headers)
    return ValueTimestampHeaders(data, given["timestamp"], headers)


def shown(value: Any) -> Any:
    """A value of a store, as a trace has it."""
    if isinstance(value, ValueTimestampHeaders):
        held = {"value": value.value.hex(), "timestamp": value.timestamp}
        return {**held, "headers": _pairs(value.headers)}
    if isinstance(value, ValueAndTimestamp):
        return {"value": value.value.hex(), "timestamp": value.timestamp}
    if isinstance(value, AggregationWithHeaders):
        return {"value": value.aggregation.hex(), "headers": _pairs(value.headers)}
    return None if value is None else value.hex()


def _pairs(headers: Any) -> list[list[str | None]]:
    return [[key, None if value is None else value.hex()] for key, value in headers]


def _key_value(store: Any, operation: Operation) -> Any:
    key = unhex(operation.get("key"))
    match operation["op"]:
        case "get":
            return shown(store.get(key))
        case "put":
            return store.put(key, value_of(operation["value"]))
        case "put_if_absent":
            return shown(store.put_if_absent(key, value_of(operation["value"])))
        case "put_all":
            return store.put_all([(unhex(k), value_of(v)) for k, v in operation["entries"]])
        case "delete":
            return shown(store.delete(key))
        case "range" | "reverse_range" as kind:
            scan = store.range(
                unhex(operation["from"]), unhex(operation["to"]), reverse=kind != "range"
            )
        case "all" | "reverse_all" as kind:
            scan = store.all(reverse=kind != "all")
        case "prefix_scan":
            scan = store.prefix_scan(unhex(operation["prefix"]))
        case "approximate_num_entries":
            return store.approximate_num_entries()
        case other:
            raise AssertionError(other)
    return [[key.hex(), shown(value)] for key, value in scan]


def _versioned(store: Any, operation: Operation) -> Any:
    key = unhex(operation["key"])
    match operation["op"]:
        case "put":
            return store.put(key, unhex(operation["value"]), timestamp=operation["timestamp"])
        case "delete":
            return _record(store.delete(key, timestamp=operation["timestamp"]), None)
        case "get":
            return _record(store.get(key), None)
        case "get_as_of":
            as_of = operation["as_of"]
            record = store.get(key, as_of)
            assert store.get_many([key], as_of) == [record]
            assert [r for _, r in store.range(key, key, as_of)] == ([record] if record else [])
            return _record(record, None)
        case "query_versions":
            versions = store.history(
                key, operation["from"], operation["to"], reverse=operation["order"] != "asc"
            )
            return [_record(version, version.valid_to) for version in versions]
        case other:
            raise AssertionError(other)


def _record(record: Any, valid_to: int | None) -> Any:
    """As the trace has it: Kafka's typed reads drop valid-to, its queries do not."""
    if record is None:
        return None
    return {"value": record.value.hex(), "timestamp": record.timestamp, "valid_to": valid_to}


def _window(store: Any, operation: Operation) -> Any:
    key = unhex(operation.get("key"))
    reverse = operation["op"].startswith("backward_")
    match operation["op"].removeprefix("backward_"):
        case "put":
            value = value_of(operation["value"])
            return store.put(key, value, window_start=operation["window_start"])
        case "fetch_one":
            return shown(store.fetch_one(key, operation["time"]))
        case "fetch":
            found = store.fetch(key, operation["from"], operation["to"], reverse=reverse)
            return [[start, shown(value)] for start, value in found]
        case "fetch_range":
            lo, hi = unhex(operation["key_from"]), unhex(operation["key_to"])
            found = store.fetch_range(lo, hi, operation["from"], operation["to"], reverse=reverse)
        case "fetch_all":
            found = store.fetch_all(operation["from"], operation["to"], reverse=reverse)
        case "all":
            found = store.all(reverse=reverse)
        case other:
            raise AssertionError(other)
    return _windowed(found)


def _session(store: Any, operation: Operation) -> Any:
    key = unhex(operation.get("key"))
    ends = [unhex(operation.get("key_from")), unhex(operation.get("key_to"))]
    reverse = operation["op"].startswith("backward_")
    match operation["op"].removeprefix("backward_"):
        case "put":
            session = Windowed(key, operation["start"], operation["end"])
            return store.put(session, value_of(operation["value"]))
        case "remove":
            return store.remove(Windowed(key, operation["start"], operation["end"]))
        case "fetch_session":
            return shown(store.fetch_session(key, operation["start"], operation["end"]))
        case "fetch":
            found = store.fetch(key, reverse=reverse)
        case "fetch_range":
            found = store.fetch_range(*ends, reverse=reverse)
        case "find_sessions":
            times = operation["earliest_end"], operation["latest_start"]
            found = store.find_sessions(key, *times, reverse=reverse)
        case "find_sessions_range":
            times = operation["earliest_end"], operation["latest_start"]
            found = store.find_sessions_range(*ends, *times, reverse=reverse)
        case "find_sessions_between":
            found = store.find_sessions_between(operation["earliest_end"], operation["latest_end"])
        case other:
            raise AssertionError(other)
    return _windowed(found)


def _windowed(scan: Any) -> Any:
    return [
        [{"key": w.key.hex(), "start": w.start, "end": w.end}, shown(value)] for w, value in scan
    ]

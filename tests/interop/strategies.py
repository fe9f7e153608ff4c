"""Random lives: operations of each shape, drawn so that keys and times meet again.

No time lies after that of `wake`, so that a store is as far after it as before its close.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kstore_core.testing import strategies as drawn
from tests.interop.kinds import Kind
from tests.interop.lives import value
from tests.interop.sides import Operation

__all__ = ["lives"]

_KEYS = drawn.keys().map(bytes.hex)
_ENDS = drawn.bounds().map(lambda key: None if key is None else key.hex())
_TIMES = st.integers(0, 300) | st.sampled_from([0, 49, 50, 99, 100, 250, 300])
_RANGES = st.tuples(_TIMES, _TIMES).map(sorted)
_RECORD_TIMES = st.sampled_from([0, -1, 2**63 - 1]) | st.integers(-5, 2**40)


def lives(kind: Kind) -> SearchStrategy[list[Operation]]:
    """Operations for a store of this kind, without their records."""
    return st.lists(_OPERATIONS[kind.shape](kind), min_size=1, max_size=25)


def _values(kind: Kind) -> SearchStrategy[Any]:
    headers = drawn.headers().map(
        lambda pairs: [[key, None if v is None else v.hex()] for key, v in pairs]
    )
    data = drawn.values().map(bytes.hex)
    return st.builds(value, st.just(kind.form), data, _RECORD_TIMES, headers)


def _operation(*names: str, **fields: SearchStrategy[Any]) -> SearchStrategy[Operation]:
    return st.fixed_dictionaries({"op": st.sampled_from(names), **fields})


def _key_value(kind: Kind) -> SearchStrategy[Operation]:
    values, key = _values(kind), _KEYS
    entries = st.lists(st.tuples(key, st.none() | values).map(list), min_size=1, max_size=4)
    put = _operation("put", key=key, value=st.none() | values)
    return st.one_of(
        put,
        put,
        _operation("put_if_absent", key=key, value=values),
        _operation("put_all", entries=entries),
        _operation("get", "delete", key=key),
        _operation("range", "reverse_range", **{"from": _ENDS, "to": _ENDS}),
        _operation("all", "reverse_all"),
        _operation("prefix_scan", prefix=key),
    )


def _versioned(kind: Kind) -> SearchStrategy[Operation]:
    times = _TIMES.map(lambda time: 4 * time)
    put = _operation("put", key=_KEYS, value=st.none() | _values(kind), timestamp=times)
    ranges = st.tuples(st.none() | times, st.none() | times, st.sampled_from(["asc", "desc"]))
    return st.one_of(
        put,
        put,
        _operation("delete", key=_KEYS, timestamp=times),
        _operation("get", key=_KEYS),
        _operation("get_as_of", key=_KEYS, as_of=times),
        st.builds(_query, _KEYS, ranges),
    )


def _query(key: str, asked: tuple[int | None, int | None, str]) -> Operation:
    lo, hi, order = asked
    if lo is not None and hi is not None:
        lo, hi = sorted((lo, hi))
    return {"op": "query_versions", "key": key, "from": lo, "to": hi, "order": order}


def _window(kind: Kind) -> SearchStrategy[Operation]:
    put = _operation("put", key=_KEYS, value=st.none() | _values(kind), window_start=_TIMES)

    def within(operation: Operation, times: list[int]) -> Operation:
        return {**operation, "from": times[0], "to": times[1]}

    return st.one_of(
        put,
        put,
        _operation("fetch_one", key=_KEYS, time=_TIMES),
        st.builds(within, _operation("fetch", "backward_fetch", key=_KEYS), _RANGES),
        st.builds(
            within,
            _operation("fetch_range", "backward_fetch_range", key_from=_ENDS, key_to=_ENDS),
            _RANGES,
        ),
        st.builds(within, _operation("fetch_all", "backward_fetch_all"), _RANGES),
        _operation("all", "backward_all"),
    )


def _session(kind: Kind) -> SearchStrategy[Operation]:
    def spanning(operation: Operation, times: list[int]) -> Operation:
        return {**operation, "start": times[0], "end": times[1]}

    put = _operation("put", key=_KEYS, value=st.none() | _values(kind))
    find = {"earliest_end": _TIMES, "latest_start": _TIMES}
    ends = {"key_from": _ENDS, "key_to": _ENDS}
    return st.one_of(
        st.builds(spanning, put, _RANGES),
        st.builds(spanning, put, _RANGES),
        st.builds(spanning, _operation("remove", "fetch_session", key=_KEYS), _RANGES),
        _operation("find_sessions", "backward_find_sessions", key=_KEYS, **find),
        _operation("find_sessions_range", "backward_find_sessions_range", **ends, **find),
        _operation("find_sessions_between", earliest_end=_TIMES, latest_end=_TIMES),
        _operation("fetch", "backward_fetch", key=_KEYS),
        _operation("fetch_range", "backward_fetch_range", **ends),
    )


_OPERATIONS: dict[str, Callable[[Kind], SearchStrategy[Operation]]] = {
    "key_value": _key_value,
    "versioned": _versioned,
    "window": _window,
    "session": _session,
}

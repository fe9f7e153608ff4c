"""What is done to a store of each shape: writes that reach every corner, then every read there is.

All of it are operations in the form of the golden traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

from tests.interop.kinds import Kind
from tests.interop.sides import Operation

__all__ = [
    "KEYS",
    "NOW",
    "PARTS",
    "SHIFT",
    "commit",
    "everything",
    "expiring",
    "lookup",
    "reads",
    "recorded",
    "scans",
    "value",
    "wake",
    "writes",
]

KEYS = ["", "00", "0000", "6b", "6b00", "6bff", "ff", "ffff"]
"""The empty one, prefixes of one another, and the ends of what bytes can be."""

DATA = ["76", "", "00ff", "ab" * 70]
TIMESTAMPS = [5, 0, 1_700_000_000_000, -1]
HEADERS: list[list[list[str | None]]] = [
    [],
    [["a", "31"]],
    [["a", "31"], ["a", None], ["a", ""], ["a", "31"]],
    [["", "00"], ["ключ", None], ["\U0001f511", "ff" * 200]],
]

STARTS = [0, 10, 49, 50, 120, 260, 255, 12, 52, 61, 300]
"""Of windows: five segments; from 260 on the first has expired, 12 comes too late, and 52 lies in
a live segment though it is not to be seen any more."""

SESSIONS = [(0, 0), (5, 49), (40, 50), (0, 120), (255, 260), (10, 12), (3, 52), (61, 61), (9, 300)]
"""Start and end; the ends are the windows' starts, and expire as they do."""

VERSIONS = [10, 150, 130, 1180, 700, 5, 1100, 180, 1250]
"""Timestamps, out of order; 5 comes too late."""

NOW = {"window": 300, "session": 300, "versioned": 1250}
"""The greatest time of each in its first part."""

SHIFT = 100
"""By how much the times of a part lie behind those of the part before it."""

PARTS = 3


def value(form: str, data: str, timestamp: int, headers: list[list[str | None]]) -> Any:
    """A value in the form of the traces."""
    return {
        "plain": data,
        "timestamped": {"value": data, "timestamp": timestamp},
        "headers": {"value": data, "timestamp": timestamp, "headers": headers},
        "aggregation": {"value": data, "headers": headers},
    }[form]


def recorded(operations: Iterator[Operation], first: int = 0) -> list[Operation]:
    """Each as the work of an input record of its own; offsets begin at `first`."""
    return [
        {
            **operation,
            "record": {
                "topic": "input",
                "partition": offset % 2,
                "offset": offset,
                "timestamp": offset,
                "headers": HEADERS[offset % len(HEADERS)],
            },
        }
        for offset, operation in enumerate(operations, first)
    ]


def commit(offset: int) -> Operation:
    return {"op": "commit", "offset": offset}


def writes(kind: Kind, part: int) -> list[Operation]:
    """Puts, overwrites and deletes, one commit in their middle and one at their end.

    A store lives in parts 0 to PARTS - 1, whose times and offsets follow one another.
    """
    made = recorded(_WRITES[kind.shape](kind, part), first=1000 * part)
    middle = len(made) // 2
    return [
        *made[:middle],
        commit(1000 * part + middle),
        *made[middle:],
        commit(1000 * part + len(made)),
    ]


def reads(kind: Kind) -> list[Operation]:
    """Every read that the shape has, over ranges of every kind."""
    return list(_READS[kind.shape]())


def everything(kind: Kind) -> Operation:
    """The read of all that can be seen; of a versioned store there is none."""
    if kind.shape == "session":
        return {"op": "fetch_range", "key_from": None, "key_to": None}
    return {"op": "all"}


def lookup(kind: Kind, row: list[Any]) -> Operation:
    """The read of one row that `everything` gave; it moves one of an older format."""
    if kind.shape == "key_value":
        return {"op": "get", "key": row[0]}
    key, start, end = row[0]["key"], row[0]["start"], row[0]["end"]
    if kind.shape == "window":
        return {"op": "fetch_one", "key": key, "time": start}
    return {"op": "fetch_session", "key": key, "start": start, "end": end}


def scans(kind: Kind) -> list[Operation]:
    """The reads that look no single row up, and so move none."""
    return [o for o in reads(kind) if o["op"] not in ("get", "fetch_one", "fetch_session")]


def wake(kind: Kind, part: int, sitting: int = 0) -> list[Operation]:
    """Writes after which a reopened store knows again what Kafka's do not keep.

    That is stream time, and, of a versioned store, which segments there are: it finds one again
    when it is written to. The `sitting` tells those of one part apart.
    """
    now = NOW.get(kind.shape, 0) + SHIFT * part
    key, given = f"77{part:02}{sitting:02}", next(_values(kind))
    match kind.shape:
        case "window":
            return [_put(key, given, window_start=now)]
        case "session":
            return [_put(key, given, start=now, end=now)]
        case "versioned":
            return [_put(key, given, timestamp=now - ago) for ago in range(0, 1001, 100)]
    return []


def expiring(kind: Kind, operations: list[Operation]) -> list[Operation]:
    """A write after which Kafka's session store has expired what the operations expire.

    A remove moves stream time there and here, but Kafka's store drops segments at its next put.
    """
    if kind.shape != "session":
        return []
    ends = {
        name: max((one["end"] for one in operations if one["op"] == name), default=-1)
        for name in ("put", "remove")
    }
    if ends["remove"] <= ends["put"]:
        return []
    last = ends["remove"]
    return [_put("7799", next(_values(kind)), start=last, end=last)]


def first_segment(kind: Kind, part: int) -> int:
    """Of a versioned store, the first segment that has not expired after a part."""
    if kind.shape != "versioned":
        return 0
    now, options = NOW[kind.shape] + SHIFT * part, kind.options
    return (now - options["history_retention_ms"]) // options["segment_interval_ms"]


def _put(key: str, given: Any, **where: Any) -> Operation:
    return {"op": "put", "key": key, "value": given, **where}


def _values(kind: Kind) -> Iterator[Any]:
    """Values of the kind, no two neighbours alike."""
    for number in count():
        # 4, 4 and 4 with steps 1, 3 and a slower 1: all meet each other.
        yield value(
            kind.form,
            DATA[number % 4],
            TIMESTAMPS[3 * number % 4],
            HEADERS[(number + number // 4) % 4],
        )


def _write_key_value(kind: Kind, part: int) -> Iterator[Operation]:
    values = _values(kind)
    for key in KEYS[part:]:
        yield _put(key, next(values))
    for key in (KEYS[1], KEYS[6]):
        yield _put(key, next(values))
        yield {"op": "put_if_absent", "key": key, "value": next(values)}
    yield {"op": "delete", "key": KEYS[2 + part]}
    yield {"op": "delete", "key": "dead"}
    yield _put(KEYS[4], None)
    yield {"op": "put_if_absent", "key": KEYS[4], "value": next(values)}
    yield {
        "op": "put_all",
        "entries": [[f"{part:02}aa", next(values)], ["bb", next(values)], [KEYS[5], None]],
    }


def _write_window(kind: Kind, part: int) -> Iterator[Operation]:
    values = _values(kind)
    shift = SHIFT * part
    if kind.duplicates:
        shift += part  # windows of its own: Kafka's counter begins anew, and would overwrite
    for start in STARTS:
        for key in KEYS[part::2]:
            yield _put(key, next(values), window_start=start + shift)
    for start, key in product((120, 255, 12), (KEYS[1], KEYS[2])):
        yield _put(key, None, window_start=start + shift)
        yield _put(key, next(values), window_start=start + shift)
    yield _put(KEYS[part], None, window_start=STARTS[-1] + shift)


def _write_session(kind: Kind, part: int) -> Iterator[Operation]:
    values = _values(kind)
    sessions = [(start + SHIFT * part, end + SHIFT * part) for start, end in SESSIONS]
    for start, end in sessions:
        for key in KEYS[part::2]:
            yield _put(key, next(values), start=start, end=end)
    for (start, end), key in product(sessions[3:6], (KEYS[1], KEYS[2])):
        yield {"op": "remove", "key": key, "start": start, "end": end}
        yield _put(key, next(values), start=start, end=end + 1)
    yield _put(KEYS[part], None, start=sessions[-1][0], end=sessions[-1][1])


def _write_versioned(kind: Kind, part: int) -> Iterator[Operation]:
    values, shift = _values(kind), SHIFT * part
    for timestamp in VERSIONS:
        for key in KEYS[part::2]:
            yield _put(key, next(values), timestamp=timestamp + shift)
    for key in (KEYS[1], KEYS[2]):
        yield _put(key, None, timestamp=400 + shift)
        yield {"op": "delete", "key": key, "timestamp": 1190 + shift}
        yield {"op": "delete", "key": key, "timestamp": 3}
        yield _put(key, next(values), timestamp=420 + shift)


RANGES = [(None, None), ("", "6b"), ("00", "6b00"), ("6b", None), (None, "0000"), ("ff", "00")]
TIMES = [(0, 10**9), (10, 52), (49, 260), (260, 260), (301, 400)]


def _shifted(times: list[int]) -> list[int]:
    return sorted({time + SHIFT * part for time in times for part in range(PARTS)})


def _read_key_value() -> Iterator[Operation]:
    for key in [*KEYS, "dead", "bb"]:
        yield {"op": "get", "key": key}
    for lo, hi in RANGES:
        yield {"op": "range", "from": lo, "to": hi}
        yield {"op": "reverse_range", "from": lo, "to": hi}
    yield {"op": "all"}
    yield {"op": "reverse_all"}
    for prefix in ("6b", "00", "ff", "dead"):
        yield {"op": "prefix_scan", "prefix": prefix}


def _read_window() -> Iterator[Operation]:
    for key, start in product(KEYS, _shifted(STARTS)):
        yield {"op": "fetch_one", "key": key, "time": start}
    for way in ("", "backward_"):
        for lo, hi in TIMES:
            times = {"from": lo, "to": hi}
            for key in KEYS:
                yield {"op": f"{way}fetch", "key": key, **times}
            for first, last in RANGES:
                yield {"op": f"{way}fetch_range", "key_from": first, "key_to": last, **times}
            yield {"op": f"{way}fetch_all", **times}
        yield {"op": f"{way}all"}


def _read_session() -> Iterator[Operation]:
    for key, (start, end), part in product(KEYS, SESSIONS, range(PARTS)):
        times = {"start": start + SHIFT * part, "end": end + SHIFT * part}
        yield {"op": "fetch_session", "key": key, **times}
    for way in ("", "backward_"):
        for key in KEYS:
            yield {"op": f"{way}fetch", "key": key}
        for first, last in RANGES:
            yield {"op": f"{way}fetch_range", "key_from": first, "key_to": last}
        for lo, hi in [*TIMES, (260, 10)]:
            times = {"earliest_end": lo, "latest_start": hi}
            for key in KEYS:
                yield {"op": f"{way}find_sessions", "key": key, **times}
            for first, last in RANGES:
                keys = {"key_from": first, "key_to": last}
                yield {"op": f"{way}find_sessions_range", **keys, **times}
    for lo, hi in TIMES:
        yield {"op": "find_sessions_between", "earliest_end": lo, "latest_end": hi}


def _read_versioned() -> Iterator[Operation]:
    for key in KEYS:
        yield {"op": "get", "key": key}
        for timestamp in _shifted(VERSIONS):
            for as_of in (timestamp, timestamp + 3):
                yield {"op": "get_as_of", "key": key, "as_of": as_of}
        for lo, hi in [(None, None), (0, 200), (180, 1180), (1180, None), (None, 130)]:
            for order in ("asc", "desc"):
                yield {"op": "query_versions", "key": key, "from": lo, "to": hi, "order": order}


_WRITES: dict[str, Callable[[Kind, int], Iterator[Operation]]] = {
    "key_value": _write_key_value,
    "versioned": _write_versioned,
    "window": _write_window,
    "session": _write_session,
}
_READS: dict[str, Callable[[], Iterator[Operation]]] = {
    "key_value": _read_key_value,
    "versioned": _read_versioned,
    "window": _read_window,
    "session": _read_session,
}

"""State directories with a file of every sort that an engine writes, left as a killed process does.

``python -m tests.damage.homes KIND ENGINE PATH`` writes one and ends without closing it, so that
what was committed last is in the write-ahead log alone. What the store holds after each commit is
printed, one digest a line: what a reader may see of it later.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore_core import StateDirectory, ValueTimestampHeaders, Windowed, open_state, stores
from kstore_core.spec import StoreSpec
from tests.damage.reading import digest

HEADERS = [("trace-id", b"\x00\xff"), ("trace-id", None), ("source", b"ECB")]
COMMITS = 6
ROWS = 60

SPECS: dict[str, StoreSpec] = {
    "orders": stores.timestamped_key_value_with_headers("orders"),
    "rates": stores.versioned_key_value_with_headers("rates", 60_000, 20_000),
    "clicks": stores.timestamped_window_with_headers(
        "clicks", 60_000, 1_000, False, 30_000, time_ordered=True, indexed=True
    ),
    "visits": stores.session("visits", 60_000, 30_000),
}


def _order(store: Any, number: int) -> None:
    key = b"key-%03d" % (number * 7 % 100)
    if number % 9 == 8:
        store.delete(key)
    else:
        store.put(key, ValueTimestampHeaders(b"v%d" % number * 9, number, HEADERS))


def _rate(store: Any, number: int) -> None:
    key = b"key-%03d" % (number * 7 % 40)
    if number % 9 == 8:
        store.delete(key, timestamp=number * 100)
    else:
        store.put(key, b"v%d" % number * 9, timestamp=number * 100, headers=HEADERS)


def _click(store: Any, number: int) -> None:
    value = ValueTimestampHeaders(b"v%d" % number * 9, number, HEADERS)
    store.put(b"key-%03d" % (number * 7 % 40), value, window_start=number * 100)


def _visit(store: Any, number: int) -> None:
    start = number * 100
    store.put(Windowed(b"key-%03d" % (number * 7 % 40), start, start + 50), b"v%d" % number * 9)


PUT: dict[str, Callable[[Any, int], None]] = {
    "orders": _order,
    "rates": _rate,
    "clicks": _click,
    "visits": _visit,
}


left_open: list[StateDirectory] = []


def write(kind: str, engine: str, root: Path) -> list[str]:
    """The digests of what the store holds, after its first life and each commit of its second.

    The first life is closed, which flushes it; the second one is left open.
    """
    spec, put = SPECS[kind], PUT[kind]
    with open_state(root, engine=engine) as state:
        store = state.open(spec)
        for number in range(5 * ROWS):
            put(store, number)
        state.commit({("input", 0): 0})
    state = open_state(root, engine=engine)
    left_open.append(state)
    store = state.open(spec)
    digests = [digest(state, store)]
    for commit in range(1, COMMITS):
        for number in range(ROWS * (4 + commit), ROWS * (5 + commit)):
            put(store, number)
        state.commit({("input", 0): commit})
        digests.append(digest(state, store))
    return digests


if __name__ == "__main__":
    print(*write(sys.argv[1], sys.argv[2], Path(sys.argv[3])), sep="\n", flush=True)  # noqa: T201
    os._exit(0)

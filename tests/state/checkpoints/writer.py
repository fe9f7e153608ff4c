"""A process that commits to three stores, one of them of segments, until it is told to end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from kstore_core import StateDirectory, open_state, stores

KEYED = stores.key_value("keyed")
VERSIONED = stores.versioned_key_value("versioned", 10_000_000, 1_000_000)
WINDOWS = stores.window("windows", 1_000_000, 10, segment_interval_ms=100)
SEGMENTS = 4


def open_stores(state: StateDirectory) -> list[Any]:
    return [state.open(spec) for spec in (KEYED, VERSIONED, WINDOWS)]


def write(opened: list[Any], number: int) -> None:
    """What commit ``number`` has: the number everywhere, in each of the segments."""
    keyed, versioned, windows = opened
    data = b"%d" % number
    keyed.put(b"n", data)
    versioned.put(b"n", data, timestamp=number)
    for segment in range(SEGMENTS):
        windows.put(b"n", data, window_start=segment * 100)


def number_in(root: Path) -> int:
    """The one commit that a copy has; fails where it is of several."""
    with open_state(root) as state:
        found = {at: offset for (_, at), offset in state.offsets().items()}[0]
        keyed, versioned, windows = open_stores(state)
        assert {store.offsets()["in", 0] for store in (keyed, versioned, windows)} == {found}
        values = [keyed.get(b"n"), versioned.get(b"n").value]
        rows = list(windows.all())
        assert len(rows) == SEGMENTS
        assert {int(value) for value in [*values, *(value for _, value in rows)]} == {found}
        assert versioned.get(b"n").timestamp == found
        return found


if __name__ == "__main__":
    with open_state(sys.argv[1], engine=sys.argv[2]) as state:
        opened = open_stores(state)
        number = 0
        while True:
            write(opened, number)
            state.commit({("in", 0): number})
            if number == 0:
                sys.stdout.write("begun\n")
                sys.stdout.flush()
            number += 1
            time.sleep(float(sys.argv[3]))

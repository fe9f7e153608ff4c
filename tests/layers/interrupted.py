"""A program that interrupts puts into a store with a changelog, and prints which of them it finds.

It prints the number of puts, the numbers in the store after a commit, and the numbers in another
store that was restored from the changelog.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kstore_core import open_state, serdes, stores

__all__ = ["CASES", "INTERRUPTS"]

INTERRUPTS = 150
TEXTS: Any = {"key": serdes.UTF8, "value": serdes.UTF8}
CASES: dict[str, tuple[Any, Callable[[Any, int], object], Callable[[Any, int], object]]] = {
    "key-value": (
        stores.key_value("s", **TEXTS),
        lambda store, n: store.put(f"k{n}", "v"),
        lambda store, n: store.get(f"k{n}"),
    ),
    "versioned": (
        stores.versioned_key_value("s", 10**12, 60_000, **TEXTS),
        lambda store, n: store.put(f"k{n}", "v", timestamp=n),
        lambda store, n: store.get(f"k{n}"),
    ),
    "window": (
        stores.window("s", 10**12, 1, False, 10**9, **TEXTS),
        lambda store, n: store.put(f"k{n}", "v", window_start=n),
        lambda store, n: store.fetch_one(f"k{n}", n),
    ),
}


class InterruptError(Exception):
    pass


armed = False


def interrupt(*_: object) -> None:
    """Raise at each tick, until the loop of the puts has the exception."""
    if armed:
        raise InterruptError


def main(case: str, folder: Path) -> None:
    global armed
    spec, put, get = CASES[case]
    signal.signal(signal.SIGALRM, interrupt)
    puts = 0
    log = folder / "log"
    with open_state(folder / "app" / "0_0", engine="memory", changelog=log) as state:
        store = state.open(spec)
        for _ in range(INTERRUPTS):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(20e-6, 150e-6), 0.001)
                armed = True
                while True:
                    puts += 1
                    put(store, puts)
            except InterruptError:
                armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        # A lock that an interrupt had left would stop another thread.
        other = threading.Thread(target=put, args=(store, 0), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
        state.commit()
        present = [n for n in range(puts + 1) if get(store, n) is not None]
    with open_state(folder / "again" / "app" / "0_0", engine="memory", changelog=log) as state:
        store = state.open(spec)
        restored = [n for n in range(puts + 1) if get(store, n) is not None]
    json.dump([puts, present, restored], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

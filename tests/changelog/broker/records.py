"""Records in a broker's topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kstore_core.changelog import KafkaChangelog

NOW_MS = int(time.time() * 1000)


def fill(log: KafkaChangelog, records: list[tuple[bytes, bytes | None, int, Any]]) -> None:
    for record in records:
        log.append(*record)
    log.commit()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)

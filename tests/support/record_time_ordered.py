"""Records what Kafka Streams' time-ordered stores give and leave.

``python -m tests.support.record_time_ordered`` makes tests/golden/time_ordered_<release>.jsonl
anew, by the harness of tests/interop. A line is a store: the kinds that it is
opened as, one after the other, with the operations on each and their results, and the rows of its
column families at the end.

Left out is what kstore does otherwise, and says so: ranges that are open at both ends, which Kafka
reads by the index, and sessions by end that have expired, which Kafka shows.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.interop.harness import Harness, build
from tests.support.golden import GOLDEN

KEYS = ["0000", "6161", "6162", "ff00"]
HORIZON_MS = 200
WINDOW = {"retention_ms": HORIZON_MS, "window_size_ms": 10, "segment_interval_ms": 50}
SESSION = {"retention_ms": HORIZON_MS, "segment_interval_ms": 50}
STORES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "windows": [("window_ordered_timestamped", {**WINDOW, "index": True})],
    "windows_without_index": [("window_ordered_timestamped", {**WINDOW, "index": False})],
    "duplicates": [
        ("window_ordered_timestamped", {**WINDOW, "index": True, "retain_duplicates": True})
    ],
    "headers": [("window_ordered_headers", {**WINDOW, "index": True})],
    "upgraded": [
        ("window_ordered_timestamped", {**WINDOW, "index": True}),
        ("window_ordered_headers", {**WINDOW, "index": True}),
    ],
    "sessions": [("session_ordered_plain", {**SESSION, "index": True})],
    "sessions_without_index": [("session_ordered_plain", {**SESSION, "index": False})],
}


def operations(kind: str, options: dict[str, Any], rng: random.Random, begin: int) -> Iterator[Any]:
    """Puts whose times go on from ``begin`` (ms), some late, and all kinds of reads among them."""
    duplicates = options.get("retain_duplicates", False)
    observed = begin
    for number in range(60):
        time = max(0, observed + rng.randint(-120, 25)) if number else begin
        observed = max(observed, time)
        yield put(kind, rng, number, time)
        if number % 12 == 11:
            yield from (reads_of_sessions if "session" in kind else reads_of_windows)(rng, observed)
            if "window" in kind and not duplicates:
                yield {
                    "op": "fetch_one",
                    "key": rng.choice(KEYS),
                    "time": max(0, observed - HORIZON_MS),
                }


def put(kind: str, rng: random.Random, number: int, time: int) -> dict[str, Any]:
    key, data = rng.choice(KEYS), f"{number:02x}"
    value: Any = {"value": data, "timestamp": number}
    if "session" in kind:
        start = max(0, time - rng.randint(0, 30))
        value = None if number % 7 == 3 else data
        return {"op": "put", "key": key, "start": start, "end": time, "value": value}
    if "headers" in kind:
        value["headers"] = [["h", data], ["n", None]][: number % 3]
    value = None if number % 7 == 3 else value
    return {"op": "put", "key": key, "window_start": time, "value": value}


def reads_of_windows(rng: random.Random, observed: int) -> Iterator[dict[str, Any]]:
    for way in ("", "backward_"):
        lo, hi = sorted(rng.sample(KEYS, 2))
        times = {"from": max(0, observed - rng.randint(0, 300)), "to": observed}
        yield {"op": f"{way}fetch", "key": lo, **times}
        yield {"op": f"{way}fetch_range", "key_from": lo, "key_to": hi, **times}
        yield {"op": f"{way}fetch_all", **times}
        yield {"op": f"{way}all"}


def reads_of_sessions(rng: random.Random, observed: int) -> Iterator[dict[str, Any]]:
    seen = max(0, observed - HORIZON_MS + 1)
    for way in ("", "backward_"):
        lo, hi = sorted(rng.sample(KEYS, 2))
        times = {"earliest_end": observed - rng.randint(0, 300), "latest_start": observed - 20}
        times = {name: max(0, time) for name, time in times.items()}
        yield {"op": f"{way}find_sessions", "key": lo, **times}
        yield {"op": f"{way}find_sessions_range", "key_from": lo, "key_to": hi, **times}
        yield {"op": f"{way}fetch", "key": hi}
        yield {"op": f"{way}fetch_range", "key_from": lo, "key_to": hi}
    yield {"op": "find_sessions_between", "earliest_end": seen, "latest_end": observed - 30}


def recorded(kafka: Harness, name: str, directory: Path) -> dict[str, Any]:
    """A store's line."""
    rng = random.Random(name)
    lives = []
    begin = 0
    for number, (kind, options) in enumerate(STORES[name]):
        done: list[dict[str, Any]] = []
        with kafka.open(kind, name, directory, **options):
            for operation in operations(kind, options, rng, begin):
                done.append({**operation, "result": kafka.call(**operation)})
            kafka.call("commit", offset=number)
        begin = max(o.get("window_start", 0) for o in done)  # stream time, which Kafka forgets
        lives.append({"kind": kind, "options": options, "operations": done})
    rows = [row for row in kafka.raw(directory, name) if row["cf"] != "offsets"]
    raw = [[row["db"], row["cf"], row["key"], row["value"]] for row in rows]
    return {"store": name, "lives": lives, "raw": raw}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        with closing(Harness(build(root / "cache"))) as kafka:
            release = kafka.call("version")["kafka"]
            lines = [recorded(kafka, name, root / "0_0") for name in STORES]
    path = GOLDEN / f"time_ordered_{release}.jsonl"
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()

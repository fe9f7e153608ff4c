"""The outcomes of these tests, kept in results.json, and the table of docs/compatibility.md.

A test checks its outcome against the file, so the file cannot tell of what no longer holds; the
page is checked against the file by a test that needs no Java. To write both anew:

    rm tests/interop/results.json
    KSTORE_INTEROP_RECORD=1 .venv/bin/python -m pytest tests/interop
    .venv/bin/python -m tests.interop.results
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.interop.kinds import KINDS, Kind
from tests.support.places import DOCS

__all__ = ["COLUMNS", "RESULTS", "Cell", "cell", "embedded", "main", "recorded", "release"]

RESULTS = Path(__file__).parent / "results.json"
PAGE = DOCS / "compatibility.md"
BEGIN, END = "<!-- interop: begin -->\n", "<!-- interop: end -->\n"

COLUMNS = {
    "reads": "kstore reads Kafka's",
    "Kafka writes, kstore goes on": "Kafka → kstore → Kafka",
    "kstore writes, Kafka goes on": "kstore → Kafka → kstore",
    "same lives": "same results, same rows",
    "upgrade begun by Kafka": "upgrade begun by Kafka",
    "upgrade begun by kstore": "upgrade begun by kstore",
}
"""What is tested of a kind, and the head of its column."""

Cell = Callable[..., AbstractContextManager[None]]


def recorded() -> dict[str, dict[str, dict[str, str]]]:
    """Outcomes by what ran, kind and direction."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def release(*, kafka: str, rocksdb: str, **_: str) -> str:
    """What ran, as the file and the page name it."""
    return f"{kafka} with RocksDB {rocksdb}"


@contextmanager
def cell(ran: str, kind: Kind, direction: str) -> Iterator[None]:
    """Hold the outcome of the block to the one in the file, or write it there if asked to.

    Raises
    ------
    AssertionError
        The block passed, and the file does not say so.
    """
    recording = os.environ.get("KSTORE_INTEROP_RECORD") == "1"
    try:
        yield
    except BaseException:
        if recording:
            _record(ran, kind, direction, "no")
        raise
    if recording:
        _record(ran, kind, direction, "yes")
        return
    said = recorded().get(ran, {}).get(kind.name, {}).get(direction)
    assert said == "yes", f"{RESULTS.name} says {said!r} of {ran}, {kind.name}: {direction}"


def _record(ran: str, kind: Kind, direction: str, outcome: str) -> None:
    with RESULTS.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        held = json.loads(file.read() or "{}")
        of_kind = held.setdefault(ran, {}).setdefault(kind.name, {})
        if of_kind.get(direction) != "no":  # of several upgrades to a kind the worst counts
            of_kind[direction] = outcome
        file.truncate(0)
        file.write(json.dumps(held, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def table() -> str:
    """The outcomes as Markdown: a table for each release, a row for each kind of store."""
    parts = []
    for ran, kinds in sorted(recorded().items()):
        tried = {column for outcomes in kinds.values() for column in outcomes}
        columns = {column: head for column, head in COLUMNS.items() if column in tried}
        heads = [f"Kafka Streams {ran}", *columns.values()]
        rows = [heads, ["---"] * len(heads)]
        for kind in KINDS:
            outcomes = kinds.get(kind.name, {})
            rows.append([kind.name, *(outcomes.get(column, "") for column in columns)])
        parts.append("".join(f"| {' | '.join(row)} |\n" for row in rows))
    return "\n".join(parts)


def embedded(page: str) -> str:
    """The page with the table of today between its two markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(embedded(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Every difference is met: what no operation shows is none, and must not be kept as an excuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.differences import DIFFERENCES, Difference, lasting
from tests.interop.harness import Harness
from tests.interop.kinds import KINDS
from tests.interop.lives import commit, recorded, wake
from tests.interop.sides import Kafka, KStore, Operation, Run

BY_NAME = {kind.name: kind for kind in KINDS}


def put(key: str, **where: int) -> Operation:
    return {"op": "put", "key": key, "value": "76", **where}


#: What, as in the list; a kind that shows it; operations, the last of which differs.
EXAMPLES: list[tuple[str, str, list[Operation]]] = [
    ("position", "versioned", [put("6b", timestamp=10), commit(1), {"op": "state"}]),
    ("nowhere to keep an offset", "window, plain", [commit(1)]),
    (
        "removal of a session",
        "session, plain",
        [
            put("6b", start=0, end=0),
            {"op": "remove", "key": "6b", "start": 100, "end": 100},
            commit(1),
        ],
    ),
    (
        "versions are lost",
        "versioned",
        [
            put("6b", timestamp=10),
            put("6b", timestamp=250),
            {"op": "query_versions", "key": "6b", "from": 0, "to": 20, "order": "asc"},
        ],
    ),
    (
        "one of many duplicates",
        "window, plain, duplicates",
        [
            put("6b", window_start=10),
            put("6b", window_start=10),
            {"op": "fetch_one", "key": "6b", "time": 10},
        ],
    ),
    (
        "keys of different lengths",
        "window, plain",
        [
            put("00", window_start=10),
            {"op": "fetch_range", "key_from": None, "key_to": "0000", "from": 0, "to": 99},
        ],
    ),
    (
        "sessions of all keys by their end are unsupported",
        "session, headers",
        [{"op": "find_sessions_between", "earliest_end": 0, "latest_end": 99}],
    ),
    (
        "until their segment expires",
        "session, plain, time-ordered",
        [
            put("6b", start=300, end=300),
            put("6b", start=500, end=500),
            {"op": "find_sessions_between", "earliest_end": 0, "latest_end": 999},
        ],
    ),
    (
        "order of the index",
        "window, plain, time-ordered",
        [
            put("ff", window_start=10),
            put("00", window_start=20),
            {"op": "fetch_range", "key_from": None, "key_to": None, "from": 0, "to": 99},
        ],
    ),
    ("ends before it begins", "window, plain", [{"op": "fetch_all", "from": 9, "to": 0}]),
    ("negative time", "versioned", [put("6b", timestamp=-5)]),
]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.what)
def test_every_difference_is_met(kafka: Harness, tmp_path: Path, difference: Difference) -> None:
    [(_, name, given)] = [each for each in EXAMPLES if each[0] in difference.what]
    kind = BY_NAME[name]
    *before, last = [*recorded(iter(given[:-1])), given[-1]]
    results = []
    for side in (Kafka(kafka), KStore()):
        with side.open(kind, tmp_path / side.name) as run:
            results.append([run(operation) for operation in [*before, last]][-1])
        if last["op"] == "state":  # of what is on disk
            with side.open(kind, tmp_path / side.name) as run:
                results[-1] = run(last)
    theirs, ours = results
    assert theirs != ours
    assert difference.explains(kind, last, theirs, ours)


def versions(run: Run) -> list[tuple[str, int, int | None]]:
    found = run({"op": "query_versions", "key": "6b", "from": None, "to": None, "order": "asc"})
    return [(each["value"], each["timestamp"], each["valid_to"]) for each in found]


def test_kafka_reads_the_tombstone_that_only_kstore_keeps(kafka: Harness, tmp_path: Path) -> None:
    """A delete at the time of the latest version itself, and then an earlier version."""
    kind = BY_NAME["versioned"]
    delete = {"op": "delete", "key": "6b", "timestamp": 1000}
    given = [put("6b", timestamp=1000), delete, put("6b", timestamp=500), commit(3)]
    held = {}
    for side in (Kafka(kafka), KStore()):
        with side.open(kind, tmp_path / side.name) as run:
            run(given[0])
            assert lasting(kind, delete, run)
            for operation in given[1:]:
                run(operation)
            held[side.name] = versions(run)
    assert held == {"Kafka": [("76", 500, None)], "kstore": [("76", 500, 1000)]}
    with Kafka(kafka).open(kind, tmp_path / "kstore") as run:
        for operation in wake(kind, 0):
            run(operation)
        assert versions(run) == [("76", 500, 1000)]
        assert run({"op": "get", "key": "6b"}) is None


@pytest.mark.parametrize(("side", "kept"), [("Kafka", 1), ("kstore", 2)])
def test_only_kstore_goes_on_counting_duplicates(
    kafka: Harness, tmp_path: Path, side: str, kept: int
) -> None:
    """Whoever wrote the first one, of a store that is opened anew for the second."""
    kind = BY_NAME["window, plain, duplicates"]
    second = {"Kafka": Kafka(kafka), "kstore": KStore()}[side]
    for first in (Kafka(kafka), KStore()):
        directory = tmp_path / first.name
        for opened in (first, second):
            with opened.open(kind, directory) as run:
                run(put("6b", window_start=10))
                run(commit(1))
        with KStore().open(kind, directory, read_only=True) as run:
            assert len(run({"op": "all"})) == kept

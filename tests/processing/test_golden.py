"""Random topologies give what Kafka's own test driver recorded, without a JVM."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import Any

import pytest

from tests.processing.changelogs import assert_equal_results
from tests.processing.programs import run, topology_of
from tests.support.places import GOLDEN

LINES = [
    json.loads(line)
    for line in gzip.decompress((GOLDEN / "topologies_4.3.1.jsonl.gz").read_bytes()).splitlines()
]
RUN = [line for line in LINES if "results" in line]


def check(line: dict[str, Any], engine: str) -> None:
    assert_equal_results(line["program"], line["results"], run(line["program"], engine))


def test_the_data_are_many_and_say_something() -> None:
    assert len(RUN) >= 40
    outputs = [records for line in RUN for records in line["results"]["outputs"].values()]
    assert sum(map(len, outputs)) > 5000
    assert any(headers for records in outputs for *_, headers in records)
    kinds = {store["kind"] for line in RUN for store in line["program"]["stores"]}
    assert len(kinds) == 9


@pytest.mark.parametrize("first", range(0, len(RUN), 16))
def test_outputs_changelogs_and_stores_are_those_of_kafka(first: int) -> None:
    for line in RUN[first : first + 16]:
        try:
            check(line, "memory")
        except BaseException as error:
            error.add_note(f"program {line['seed']}")
            raise


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_engines_on_disk_give_the_same(engine: str) -> None:
    for line in RUN[:4]:
        check(line, engine)


def test_the_text_of_a_topology_is_that_of_kafka() -> None:
    wrong = [
        line["seed"] for line in LINES if topology_of(line["program"]).describe() != line["text"]
    ]
    assert wrong == []


def test_a_topology_can_be_pickled() -> None:
    for line in RUN[:10]:
        topology = topology_of(line["program"])
        again = pickle.loads(pickle.dumps(topology))
        assert again == topology
        assert again.describe() == line["text"]

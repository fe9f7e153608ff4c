"""What the options of ``format("kstore-kafka")`` may say, and what is said where they are wrong."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pytest

from kstore_core.changelog.kafka import client as kafka_client
from kstore_core.errors import EngineUnavailableError, SpecError
from kstore_core.spark.kafka.offsets import EARLIEST, LATEST
from kstore_core.spark.kafka.options import OPTIONS, KafkaOptions, Topics

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_the_least_and_what_holds_then() -> None:
    found = KafkaOptions.of(LEAST)
    assert found == KafkaOptions("localhost:9092", Topics(("orders",)))
    found.check_batch()
    found.check_stream()


def test_all_of_them_in_lower_case_as_spark_hands_them_over() -> None:
    given = {
        "kafka.bootstrap.servers": "a:1,b:2",
        "assign": '{"orders": [1, 0], "rates": [2]}',
        "startingOffsets": '{"orders": {"0": 5, "1": -2}, "rates": {"2": -1}}',
        "endingOffsets": "Latest",
        "includeHeaders": "TRUE",
        "failOnDataLoss": "false",
        "minPartitions": "6",
        "maxOffsetsPerTrigger": "1000",
        "kafkaConsumer.pollTimeoutMs": "1500",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.bytes": "1000",
    }
    found = KafkaOptions.of({name.lower(): value for name, value in given.items()})
    assert pickle.loads(pickle.dumps(found)) == found
    assert OPTIONS.keys() - given.keys() == {"subscribe", "subscribePattern"}
    assert found.topics.places == (("orders", 0), ("orders", 1), ("rates", 2))
    assert found.starting is not None
    assert found.starting.each == {("orders", 0): 5, ("orders", 1): EARLIEST, ("rates", 2): LATEST}
    assert found.ending is not None
    assert found.ending.everywhere == LATEST
    assert (found.headers, found.fail_on_data_loss) == (True, False)
    assert (found.min_partitions, found.max_offsets, found.timeout_s) == (6, 1000, 1.5)
    assert found.isolation == "read_committed"
    assert found.settings == {"fetch.max.bytes": "1000"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"startingOffset": "earliest"}, "no option 'startingOffset'; did you mean startingOff"),
        ({"pollTimeoutMs": "5"}, "did you mean kafkaConsumer.pollTimeoutMs"),
        ({"zebra": "5"}, r"no option 'zebra'\. Its options are kafka.bootstrap.servers, subscribe"),
        ({"path": "x"}, "has no path, because it reads and writes topics"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"assign": '{"orders": [0]}'}, "given: subscribe, assign"),
        ({"subscribe": " , "}, "the names of topics"),
        ({"startingOffsets": "newest"}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": "{}"}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": "[1]"}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": '{"orders": [1]}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": '{"orders": {"x": 1}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": '{"orders": {"0": true}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": '{"orders": {"0": 1, "00": 2}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": f'{{"orders": {{"0": {2**63}}}}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": f'{{"orders": {{"{2**31}": 1}}}}'}, '"earliest", "latest", or JSON'),
        ({"startingOffsets": "[" * 9**5}, '"earliest", "latest", or JSON'),
        ({"minPartitions": "9" * 5000}, "a number above 0 with at most 18 digits"),
        ({"includeHeaders": "yes"}, "includeHeaders='yes' must be true or false"),
        ({"minPartitions": "0"}, "minPartitions='0' must be a number above 0"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger='-1'"),
        ({"kafkaConsumer.pollTimeoutMs": "600001"}, "at most 600000 ms"),
        ({"kafka.isolation.level": "committed"}, "read_uncommitted or read_committed"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset cannot be set.*starting"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        KafkaOptions.of({**LEAST, **more})


@pytest.mark.parametrize(
    ("which", "why"),
    [
        ({}, "subscribePattern and assign must name the topics; options given: none"),
        ({"subscribePattern": "("}, "not a Python regular expression"),
        ({"assign": "orders"}, "JSON with the partitions of each topic"),
        ({"assign": "{}"}, "JSON with the partitions"),
        ({"assign": '{"orders": 1}'}, "JSON with the partitions"),
        ({"assign": '{"orders": [-1]}'}, "JSON with the partitions"),
        ({"assign": '{"orders": [1, 1]}'}, "JSON with the partitions"),
        ({"assign": f'{{"orders": [{2**31}]}}'}, "JSON with the partitions"),
        ({"assign": "[" * 9**5}, "JSON with the partitions"),
    ],
)
def test_topics_that_are_not_named_well(which: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        KafkaOptions.of({"kafka.bootstrap.servers": "localhost:9092", **which})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"maxOffsetsPerTrigger": "5"}, "to limit a batch, set endingOffsets"),
        ({"startingOffsets": "latest"}, "must not contain the latest offset"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "must not contain the latest offset"),
        ({"endingOffsets": "earliest"}, "must not contain the earliest offset"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "must not contain the earliest offset"),
    ],
)
def test_what_a_batch_is_not_asked(more: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        KafkaOptions.of({**LEAST, **more}).check_batch()


def test_what_a_stream_is_not_asked() -> None:
    with pytest.raises(SpecError, match="availableNow"):
        KafkaOptions.of({**LEAST, "endingOffsets": "latest"}).check_stream()


def test_settings_that_a_client_of_kstores_makes_itself_are_refused_as_options() -> None:
    for name in kafka_client._OURS - {"isolation.level", "bootstrap.servers"}:
        with pytest.raises(SpecError, match=f"kafka.{name} cannot be set"):
            KafkaOptions.of({**LEAST, f"kafka.{name}": "x"})


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install .*'confluent-kafka>=2"):
        KafkaOptions.of(LEAST).cluster()


def test_a_setting_that_the_library_does_not_know() -> None:
    options: Any = KafkaOptions.of({**LEAST, "kafka.sasl.jaas.config": "x"})
    with pytest.raises(SpecError, match="JAAS"):
        options.cluster().consumer()

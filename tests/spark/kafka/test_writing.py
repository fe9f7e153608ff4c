"""Rows that are written to topics: at least once, and in transactions that are not repeated."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from pyspark.errors import PySparkException

from kstore_core.arrow import headers_type
from kstore_core.codec import partition
from kstore_core.errors import EngineError, SpecError, StateError, UnsupportedError
from kstore_core.spark.kafka import writing
from kstore_core.spark.kafka.write_options import KafkaWriteOptions
from kstore_core.spark.live.epochs import Epoch
from tests.changelog.broker.broker import Broker
from tests.spark.kafka.sent_rows import table, write_options
from tests.spark.kafka.topics import NOW_MS, options_of, read
from tests.spark.support.streams import forget_last_epoch
from tests.support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "key string, value binary, timestamp bigint, headers array<struct<key:string,value:binary>>"
)
ROWS: list[Any] = [
    ("a", b"1", NOW_MS, [("h", b"x"), ("h", None)]),
    (None, b"", NOW_MS + 1, []),
    ("b", None, NOW_MS + 2, None),
]


def found(servers: str, topic: str) -> list[dict[str, Any]]:
    """The committed records of a topic."""
    from kstore_core.spark.kafka.planning import batch_ranges

    options = options_of(servers, topic, kafka_isolation_level="read_committed")
    return read(options, batch_ranges(options))


def values(servers: str, topic: str) -> list[int]:
    return [int(row["value"]) for row in found(servers, topic)]


def test_a_batch_is_sent_as_it_is(
    spark: SparkSession, servers: str, new_topic: Callable[[], str]
) -> None:
    topic, other = new_topic(), new_topic()
    df = spark.createDataFrame(ROWS, SCHEMA)
    writer = df.write.format("kstore-kafka").option("kafka.bootstrap.servers", servers)
    writer.option("topic", topic).mode("append").save()
    records = sorted(found(servers, topic), key=lambda row: row["timestamp"])
    assert [(row["key"], row["value"], row["headers"]) for row in records] == [
        (b"a", b"1", [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]),
        (None, b"", None),
        (b"b", None, None),
    ]
    assert [row["partition"] for row in records if row["key"]] == [
        partition(key, 4) for key in (b"a", b"b")
    ]
    chosen = df.selectExpr("key", "value", "3 partition", f"'{other}' topic")
    chosen.write.format("kstore-kafka").option("kafka.bootstrap.servers", servers).mode(
        "append"
    ).save()
    assert {row["partition"] for row in found(servers, other)} == {3}
    with pytest.raises(PySparkException, match="cannot be used for a topic"):
        writer.option("topic", topic).mode("overwrite").save()


def test_a_stream_is_sent(
    spark: SparkSession, servers: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    topic = new_topic()
    for number in (1, 2):
        spark.createDataFrame([(str(number),)], "value string").write.mode("append").parquet(
            str(tmp_path / "in")
        )
        query = (
            spark.readStream.schema("value string")
            .parquet(str(tmp_path / "in"))
            .writeStream.format("kstore-kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert sorted(values(servers, topic)) == list(range(1, number + 1))


def test_a_stream_that_repeats_a_micro_batch_sends_it_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    compacted = write_options(broker.servers, topic=broker.create())
    without_key = pa.RecordBatch.from_pydict({"value": pa.array([b"v"])})
    with pytest.raises(EngineError, match=r"cleanup\.policy=compact needs a key in each record"):
        writing._sent(compacted, Epoch("q", 0), iter([without_key]))
    topic = broker.create(2, cleanup_policy="delete")

    def run() -> None:
        query = (
            spark.readStream.schema("value string")
            .parquet(str(tmp_path / "in"))
            .writeStream.format("kstore-kafka")
            .option("kafka.bootstrap.servers", broker.servers)
            .option("topic", topic)
            .option("transactionalId", f"{topic}-sink")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for number in (1, 2):
        rows = [(str(10 * number + each),) for each in range(4)]
        spark.createDataFrame(rows, "value string").coalesce(1).write.mode("append").parquet(
            str(tmp_path / "in")
        )
        run()
    assert forget_last_epoch(tmp_path / "checkpoint") == 1
    run()
    assert sorted(values(broker.servers, topic)) == [10, 11, 12, 13, 20, 21, 22, 23]


def test_a_coordinator_that_moves_is_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    topic = broker.create()
    options = write_options(broker.servers, topic=topic, transactionalId=f"{topic}-sink")
    answers = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]

    class Moving(Consumer):
        def committed(self, *arguments: Any) -> Any:
            if answers:
                raise KafkaException(KafkaError(answers.pop()))
            return super().committed(*arguments)

    monkeypatch.setattr("confluent_kafka.Consumer", Moving)
    assert writing._sent(options, Epoch("q", 0), iter(table([1, 2]))).rows == 2
    assert answers == []


def test_a_transaction_is_not_repeated(broker: Broker) -> None:
    topic = broker.create()
    options = write_options(broker.servers, topic=topic, transactionalId=f"{topic}-sink")

    def send(epoch: int, rows: list[int], query: str = "q") -> int:
        return writing._sent(options, Epoch(query, epoch), iter(table(rows))).rows

    assert [send(0, [1, 2]), send(0, [1, 2]), send(0, [1, 2])] == [2, 0, 0]
    assert [send(1, []), send(2, [3]), send(2, [3])] == [0, 1, 0]
    assert values(broker.servers, topic) == [1, 2, 3]
    with pytest.raises(StateError, match=r"epoch 2 of the query q, but with rows that differ"):
        send(2, [4])
    with pytest.raises(StateError, match="has already written epoch 2, but Spark runs epoch 1"):
        send(1, [3])
    assert send(0, [5], "another") == 1  # a new checkpoint
    assert values(broker.servers, topic) == [1, 2, 3, 5]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_task_sends_its_rows_once(broker: Broker, moment: str) -> None:
    """A process is killed before or after the commit of its transaction."""
    topic = broker.create()
    child = f"""
import os, signal
from kstore_core.spark.kafka import writing
from kstore_core.spark.live.epochs import Epoch
from tests.spark.kafka.sent_rows import table, write_options

commit = writing._Sender._commit

def committing(sender):
    sender._producer.flush(20)
    if {moment!r} == "after":
        commit(sender)
    os.kill(os.getpid(), signal.SIGKILL)

writing._Sender._commit = committing
options = write_options({broker.servers!r}, topic={topic!r}, transactionalId={topic!r})
writing._sent(options, Epoch("q", 7), iter(table([1, 2])))
"""
    ended = subprocess.run([sys.executable, "-c", child], cwd=ROOT, check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    options = write_options(broker.servers, topic=topic, transactionalId=topic)
    for _ in range(2):
        writing._sent(options, Epoch("q", 7), iter(table([1, 2])))
    assert values(broker.servers, topic) == [1, 2]


def test_a_failed_task_shows_nothing_to_readers(broker: Broker) -> None:
    topic = broker.create()
    options = write_options(broker.servers, topic=topic, transactionalId=topic)

    def rows() -> Any:
        yield from table([1, 2])
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError, match="the task fails"):
        writing._sent(options, Epoch("q", 0), rows())
    assert values(broker.servers, topic) == []
    plain = write_options(broker.servers, topic=topic)
    with pytest.raises(RuntimeError, match="the task fails"):
        writing._sent(plain, Epoch("q", 0), rows())


def test_what_cannot_be_sent_is_named(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    options = write_options(servers, topic=topic)

    def send(options: KafkaWriteOptions = options, **columns: Any) -> None:
        batch = pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), **columns})
        writing._sent(options, Epoch("q", 0), iter([batch]))

    with pytest.raises(UnsupportedError, match="a record has the timestamp 0"):
        send(timestamp=pa.array([0], pa.int64()))
    with pytest.raises(SpecError, match="a null in the column 'timestamp'"):
        send(timestamp=pa.array([None], pa.int64()))
    headers = pa.array([[{"key": "a\0", "value": b""}]], headers_type())
    with pytest.raises(UnsupportedError, match="contains a NUL"):
        send(headers=headers)
    with pytest.raises(SpecError, match="a null in the column 'topic'"):
        send(write_options(servers), topic=pa.array([None], pa.string()))
    with pytest.raises(StateError, match="there is no such topic or partition"):
        send(partition=pa.array([99], pa.int32()))
    with pytest.raises(EngineError, match="no answer within 1 s"):
        send(write_options("127.0.0.1:1", topic="t", timeoutMs="1000"))


def test_wrong_options_and_columns_are_refused(spark: SparkSession) -> None:
    servers = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    for given, why in [
        ({}, "kafka.bootstrap.servers is missing"),
        ({**servers, "topics": "t"}, "no option 'topics'; did you mean topic"),
        ({**servers, "topic": "a/b"}, "a/b"),
        ({**servers, "transactionalId": "x"}, "transactionalId needs the option topic"),
        ({**servers, "timeoutMs": "soon"}, "timeoutMs='soon'"),
        ({**servers, "path": "x"}, "has no path"),
        ({**servers, "kafka.acks": "1"}, "kafka.acks cannot be set"),
    ]:
        with pytest.raises(SpecError, match=why):
            KafkaWriteOptions.of(given)
    options = KafkaWriteOptions.of(servers)
    for schema, why in [
        ("value string", "'topic' is missing, and so is the option topic"),
        ("topic string", "'value' is missing"),
        ("value int, topic string", "'value' is int, not binary or string"),
        ("value string, topic string, more int", "'more' is unknown"),
    ]:
        with pytest.raises(SpecError, match=why):
            writing.check_columns(spark.createDataFrame([], schema).schema, options)


def test_an_error_of_the_library_closes_the_producer(
    monkeypatch: pytest.MonkeyPatch, broker: Broker
) -> None:
    topic = broker.create()
    options = write_options(broker.servers, topic=topic, transactionalId=topic)

    def refuse(sender: Any) -> None:
        raise KafkaException(sender._cluster.library.KafkaError(36))

    monkeypatch.setattr(writing._Sender, "_commit", refuse)
    with pytest.raises(EngineError, match="the rows were not sent"):
        writing._sent(options, Epoch("q", 0), iter(table([1])))
    monkeypatch.undo()
    assert writing._sent(options, Epoch("q", 0), iter(table([1]))).rows == 1
    assert values(broker.servers, topic) == [1]

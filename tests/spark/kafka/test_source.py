"""``format("kstore-kafka")`` through Spark, and the package by which Spark finds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from kstore_core.errors import SpecError
from kstore_core.spark.kafka.datasource import KafkaSource
from tests.spark.kafka.topics import check_batch_read, numbered, send
from tests.support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_batch(spark: SparkSession, servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    df = check_batch_read(spark, servers, topic)
    reader = spark.read.format("kstore-kafka").option("kafka.bootstrap.servers", servers)
    empty = reader.option("subscribe", new_topic()).option("includeHeaders", "false").load()
    assert empty.columns == df.columns[:-1]
    assert empty.count() == 0
    with pytest.raises(PySparkException, match=r"no option .startingoffset.; did you mean start"):
        reader.option("subscribe", topic).option("startingOffset", "0").load()


def test_a_stream_goes_on_where_it_ended(
    spark: SparkSession, servers: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    topic = new_topic()
    batches: list[list[tuple[int, int]]] = []

    def keep(df: DataFrame, _: int) -> None:
        rows = df.selectExpr("partition", "int(string(value)) number").collect()
        batches.append(sorted((row.partition, row.number) for row in rows))

    def run() -> list[Any]:
        query = (
            spark.readStream.format("kstore-kafka")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "4")
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return query.recentProgress

    send(servers, topic, 0, numbered(0, 5))
    send(servers, topic, 1, numbered(0, 1))
    progress = run()
    assert [len(rows) for rows in batches] == [4, 2]
    assert f'"{topic}"' in progress[0].sources[0].latestOffset
    send(servers, topic, 1, numbered(1, 2))
    run()
    assert len(batches) == 3
    rows = sorted(row for batch in batches for row in batch)
    assert rows == [*((0, number) for number in range(5)), *((1, number) for number in range(3))]


def test_what_a_reader_is_not_asked_is_refused_when_it_is_made() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    source = KafkaSource({**given, "endingOffsets": "latest"})
    assert source.name() == "kstore-kafka"
    with pytest.raises(SpecError, match="endingOffsets can be used only for a batch"):
        source.streamReader(source.schema())
    with pytest.raises(
        SpecError, match=r"has the columns struct<key:.*, but .* was called with struct<key:"
    ):
        source.reader(KafkaSource({**given, "includeHeaders": "true"}).schema())
    with pytest.raises(SpecError, match="maxOffsetsPerTrigger can be used only for a stream"):
        KafkaSource({**given, "maxOffsetsPerTrigger": "1"}).reader(source.schema())


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ("", "kstore-kafka True"),
        ("sys.modules['kstore_core'] = None", "kstore-kafka True Spark's Python cannot"),
        ("sys.modules['pyspark'] = None", "None"),
    ],
)
def test_the_package_that_spark_looks_for_never_fails(broken: str, found: str) -> None:
    code = f"""
import sys
sys.path[:0] = [{str(ROOT / "plugins")!r}]
{broken}
import pyspark_kstore_kafka as package
source = getattr(package, "DefaultSource", None)
if source is None:
    print(source)
    sys.exit()
from pyspark.sql.datasource import DataSource
print(source.name(), issubclass(source, DataSource), end=" ")
try:
    source({{"kafka.bootstrap.servers": "b:1", "subscribe": "t"}})
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.startswith(found)

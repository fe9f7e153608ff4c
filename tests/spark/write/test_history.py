"""A history that was read is written again, with the ends of its versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError
from kstore_core.spark import read_store, write_store
from tests.spark.support.logs import (
    SHARDS,
    SPEC,
    log_frame,
    make_log,
    nothing_written,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PRICES = stores.versioned_key_value("prices", 10**6, key=serdes.UTF8, value=serdes.INT64)


def rows(df: DataFrame) -> list[Any]:
    return sorted(map(tuple, df.drop("partition").collect()), key=repr)


@pytest.mark.parametrize(("seed", "timestamps"), [(1, "timestamp"), (2, "millis")])
def test_a_history_comes_back(
    spark: SparkSession, tmp_path: Path, seed: int, timestamps: Any
) -> None:
    log = make_log(seed, 120, SHARDS, keys=9)
    write_store(log_frame(spark, log), tmp_path / "one", SPEC, partitions=SHARDS)
    history = read_store(spark, tmp_path / "one", history=True, timestamps=timestamps)
    wanted = rows(history)
    assert any(row[3] is not None for row in wanted)
    write_store(history, tmp_path / "two", SPEC, partitions=SHARDS)
    write_store(history.drop("partition"), tmp_path / "five", SPEC, partitions=5)
    write_store(history, tmp_path / "one", mode="overwrite")
    for name in ("one", "two"):
        found = read_store(spark, tmp_path / name, history=True, timestamps=timestamps)
        assert rows(found) == wanted, name
    # In other shards other records advance stream time, so more or less of the history has expired.
    five = read_store(spark, tmp_path / "five", history=True, timestamps=timestamps)
    assert set(map(repr, rows(five))) <= set(map(repr, wanted))
    last = max(record.timestamp for record in log)
    for as_of in (last - 7, last, None):
        first = read_store(spark, tmp_path / "one", version=1, as_of=as_of, timestamps=timestamps)
        for name in ("one", "two", "five"):
            found = read_store(spark, tmp_path / name, as_of=as_of, timestamps=timestamps)
            assert rows(found) == rows(first), (name, as_of)


def history_of(spark: SparkSession, *versions: tuple[str, int, int, int | None]) -> DataFrame:
    return spark.createDataFrame(
        versions, "key string, value bigint, timestamp bigint, valid_to bigint"
    )


def test_a_gap_is_a_deletion(spark: SparkSession, root: Path) -> None:
    df = history_of(spark, ("b", 9, 5, 6), ("a", 2, 30, None), ("a", 1, 10, 20))
    write_store(df, root, PRICES, partitions=1)
    found = read_store(spark, root, history=True, timestamps="millis")
    assert rows(found) == [("a", 1, 10, 20), ("a", 2, 30, None), ("b", 9, 5, 6)]
    assert read_store(spark, root, as_of=25).count() == 0


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ([("a", 1, 10, 10)], r"key 'a' from 10 has the valid_to 10, but a version must end"),
        ([("a", 1, 10, 9)], r"from 10 has the valid_to 9, but a version must end"),
        ([("a", 1, 10, 21), ("a", 2, 20, None)], r"valid_to 21, but the next .*, at 20"),
        ([("a", 1, 10, None), ("a", 2, 20, None)], r"None, which only the last .* begins at 20"),
        ([("a", 1, 10, 20), ("a", 2, 10, 20)], r"valid_to 20, but the next .* before that, at 10"),
    ],
)
def test_contradictions_are_named(
    spark: SparkSession, root: Path, versions: list[Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_store(history_of(spark, *versions), root, PRICES, partitions=1)
    assert nothing_written(root)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["*", "timestamp_millis(valid_to) valid_to"], r"'valid_to' is timestamp, but .* bigint"),
        (["*", "valid_to", "1L offset"], r"'valid_to' of a history and the column 'offset'"),
    ],
)
def test_columns_that_do_not_belong_together_are_refused(
    spark: SparkSession, root: Path, columns: list[str], message: str
) -> None:
    df = history_of(spark, ("a", 1, 10, None))
    chosen = [name for name in columns if name != "*"]
    df = df.selectExpr("key", "value", "timestamp", *chosen)
    with pytest.raises(SpecError, match=message):
        write_store(df, root, PRICES, partitions=1)
    assert nothing_written(root)


def test_only_histories_have_an_end(spark: SparkSession, root: Path) -> None:
    spec = stores.timestamped_key_value("prices", key=serdes.UTF8, value=serdes.INT64)
    with pytest.raises(SpecError, match="'valid_to' is unknown"):
        write_store(history_of(spark, ("a", 1, 10, None)), root, spec, partitions=1)

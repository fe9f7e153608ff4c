"""Messages of Spark that begin with the text of the kstore error, and the modes of a write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PythonException

from kstore_core import serdes, stores
from kstore_core.spark import read_store, spec_json, write_store
from kstore_core.spark.root.root import Root

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPEC = stores.key_value("kv", key=serdes.UTF8, value=serdes.UTF8)
SOURCE = "[PYTHON_DATA_SOURCE_ERROR] Failed to"
WORKER = "An exception was thrown from the Python worker:"


@pytest.fixture
def log(spark: SparkSession) -> DataFrame:
    return spark.sql("select 'a' key, 'b' value").coalesce(1)


def message(call: Callable[[], Any], error: type[Exception]) -> list[str]:
    """The lines of the message of an error, which has no traceback of Python."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "Traceback" not in text
    return text.splitlines()


def test_the_driver_tells_the_text_first(spark: SparkSession, log: DataFrame, root: Path) -> None:
    source = spark.read.format("kstore")
    (first, *_) = message(lambda: source.load(str(root)), AnalysisException)
    assert first.startswith(f"{SOURCE} create Python data source instance: kstore_core.errors.Stat")
    write_store(log, root, SPEC, partitions=1)
    (first, *_) = message(lambda: source.option("kee", 1).load(str(root)), AnalysisException)
    assert first.startswith(f"{SOURCE} create Python data source instance: kstore_core.errors.Spec")
    wrong = spark.read.format("kstore").schema("value int").load(str(root))
    (first, *_) = message(wrong.collect, AnalysisException)
    assert "reader: kstore_core.errors.SpecError: the given schema has a column value" in first
    writer = log.write.format("kstore").mode("append")
    (first, *_) = message(lambda: writer.option("x", 1).save(str(root)), AnalysisException)
    assert "writer: kstore_core.errors.SpecError: a write of kstore has no option 'x'" in first
    nulls = log.selectExpr("cast(null as string) key", "value").write.format("kstore")
    (first, *_) = message(lambda: nulls.mode("append").save(str(root)), AnalysisException)
    assert "write: kstore_core.errors.SpecError: 1 of 1 records have no key" in first


@pytest.mark.spoils_root
def test_a_worker_tells_the_text_first(spark: SparkSession, log: DataFrame, root: Path) -> None:
    write_store(log, root, SPEC, partitions=1)
    frames = [spark.read.format("kstore").load(str(root)), read_store(spark, root)]
    for path in root.rglob("*.sst"):
        path.unlink()
    for df in frames:
        first, second, *_ = message(df.collect, PythonException)
        assert first == WORKER
        assert second.startswith("kstore_core.errors.CorruptionError: ")
        assert "is missing" in second


def test_a_write_has_two_modes(spark: SparkSession, log: DataFrame, root: Path) -> None:
    """Spark refuses the others, its default among them, before kstore is asked."""

    def refuses_the_others() -> None:
        for mode in (None, "error", "errorifexists", "ignore"):
            writer = log.write.format("kstore").options(spec=spec_json(SPEC), partitions=1)
            writer = writer if mode is None else writer.mode(mode)
            (only,) = message(partial(writer.save, str(root)), AnalysisException)
            assert only.startswith('[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "kstore"')
            assert 'use either the "Append" or "Overwrite" mode' in only

    refuses_the_others()
    assert not Root.at(root).versions()
    write_store(log, root, SPEC, partitions=1)
    refuses_the_others()
    assert Root.at(root).versions() == [1]
    more = spark.sql("select 'c' key, 'd' value").coalesce(1).write.format("kstore")
    more.mode("append").save(str(root))
    assert sorted(row.key for row in read_store(spark, root).collect()) == ["a", "c"]
    more.mode("overwrite").save(str(root))
    assert [row.key for row in read_store(spark, root).collect()] == ["c"]


def test_a_table_of_the_catalog_cannot_be_read(
    spark: SparkSession, log: DataFrame, root: Path
) -> None:
    writer = log.write.format("kstore").options(spec=spec_json(SPEC), partitions=1)
    writer.option("path", str(root)).saveAsTable("kstore_table")
    try:
        assert read_store(spark, root).count() == 1
        (first, *_) = message(spark.table("kstore_table").collect, AnalysisException)
        assert "SpecError: the path is missing" in first
        assert "For a table in its catalog, Spark does not pass the path" in first
    finally:
        spark.sql("drop table kstore_table")

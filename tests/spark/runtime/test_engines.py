"""Which processes open engines: the workers do, and the driver need not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core.discovery.registry import engine_class
from kstore_core.errors import UnsupportedError
from kstore_core.spark import (
    check_cluster,
    map_state,
    read_store,
    spec_json,
    stream_into,
    temporal_join,
    write_store,
)
from kstore_core.spark.runtime.engines import check_shared_engine
from tests.spark.support.logs import SHARDS, SPEC, log_frame, make_log, nothing_written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ONE_PROCESS = "the engine 'memory' keeps its data in the process of its writer"


@pytest.fixture
def unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that cannot be opened in this process, which is the driver."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the driver opens an engine")

    engine = engine_class("rocksdb")
    for name in ("open", "open_child", "open_directory"):
        monkeypatch.setattr(engine, name, refuse)


def test_the_driver_opens_no_engine(spark: SparkSession, root: Path, unopened: None) -> None:
    log = make_log(51, 30, SHARDS)
    write_store(log_frame(spark, log), root, SPEC, partitions=SHARDS)
    rows = read_store(spark, root, timestamps="millis")
    assert rows.count() > 0
    assert spark.read.format("kstore").load(str(root)).count() == rows.count()
    stream = log_frame(spark, log, ["key", "timestamp"])
    joined = temporal_join(stream, root, key="key", timestamp="timestamp")
    assert joined.count() == len(log)


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_an_engine_on_disk_is_shared(engine: str) -> None:
    check_shared_engine(engine)


def test_an_engine_of_one_process_is_refused_by_every_plan(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    log = log_frame(spark, make_log(52, 5, SHARDS))
    (tmp_path / "nothing").mkdir()
    stream = spark.readStream.schema(log.schema).parquet(str(tmp_path / "nothing"))
    options = {"spec": spec_json(SPEC), "partitions": "3", "engine": "memory"}
    plans: list[Callable[[], Any]] = [
        lambda: write_store(log, root, SPEC, partitions=3, engine="memory"),
        lambda: log.write.format("kstore").options(**options).mode("append").save(str(root)),
        lambda: stream_into(
            stream, root, checkpoint=tmp_path / "c", spec=SPEC, partitions=3, engine="memory"
        ),
        lambda: map_state(log, one_row, SPEC, root=root, schema="n int", engine="memory"),
        lambda: check_cluster(spark, root, engine="memory"),
    ]
    for plan in plans:
        with pytest.raises((UnsupportedError, PySparkException), match=ONE_PROCESS):
            plan()
    assert nothing_written(root)


def one_row(key: bytes, rows: Any, store: Any) -> list[tuple[int]]:
    return [(len(rows),)]

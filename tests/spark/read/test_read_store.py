"""read_store: latest, as of, history, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import Headers, serdes, stores
from kstore_core.errors import (
    CorruptionError,
    FormatDowngradeError,
    SpecError,
    StateError,
    UnsupportedError,
)
from kstore_core.spark import read_store, write_store
from kstore_core.spark.root.root import Root
from tests.spark.support import logs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> logs.Published:
    return logs.publish(spark, tmp_path_factory.mktemp("published"), 20)


@pytest.fixture(scope="module", autouse=True)
def _pandas() -> None:
    """Fixtures of a module are made under its first test's filters."""


def read(spark: SparkSession, root: Path, **options: Any) -> list[Any]:
    return logs.read_rows(read_store(spark, root, timestamps="millis", **options))


def test_the_latest(spark: SparkSession, published: logs.Published) -> None:
    root, model = published
    latest = [version for version in model.history() if version.valid_to is None]
    assert read(spark, root) == logs.in_order(latest)


@pytest.mark.parametrize("back", [-10, 0, 1, 100, 250, 280, 340, 900, 1900, 3000])
def test_as_of(spark: SparkSession, published: logs.Published, back: int) -> None:
    """As ``store.get(key, as_of=…)`` answers, before the history that is kept too."""
    root, model = published
    time = max(model.stream_times.values()) - back
    found = [model.as_of(key, time) for key in model.versions]
    assert read(spark, root, as_of=time) == logs.in_order(version for version in found if version)


@pytest.mark.parametrize(
    ("from_back", "to_back"), [(None, 100), (200, None), (200, 200), (150, 50), (5000, 400)]
)
def test_history_between(
    spark: SparkSession,
    published: logs.Published,
    from_back: int | None,
    to_back: int | None,
) -> None:
    root, model = published
    now = max(model.stream_times.values())
    first = None if from_back is None else now - from_back
    last = None if to_back is None else now - to_back

    def selected(version: Any) -> bool:
        horizon = model.horizon(version.shard)
        if last is not None and version.timestamp > last:
            return False
        if version.valid_to is None:
            return True
        if last is not None and last < horizon:
            return False
        alive = version.valid_to // logs.INTERVAL >= horizon // logs.INTERVAL
        return alive and (first is None or version.valid_to > first)

    wanted = logs.in_order(version for version in model.history() if selected(version))
    assert read(spark, root, history=True, from_ts=first, to_ts=last) == wanted


def test_times_are_spark_timestamps(spark: SparkSession, published: logs.Published) -> None:
    root, model = published
    df = read_store(spark, root, history=True)
    assert df.columns == ["key", "value", "timestamp", "valid_to", "headers", "partition"]
    assert [field.dataType.simpleString() for field in df.schema.fields] == [
        "binary",
        "binary",
        "timestamp",
        "timestamp",
        "array<struct<key:string,value:binary>>",
        "int",
    ]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    times = {
        (row["key"], row["timestamp"], row["valid_to"])
        for row in df.toArrow().select(["key", "timestamp", "valid_to"]).to_pylist()
    }
    wanted = {(version.key, version.timestamp, version.valid_to) for version in model.history()}
    at = {
        (key, epoch + timedelta(milliseconds=begin), end and epoch + timedelta(milliseconds=end))
        for key, begin, end in wanted
    }
    assert times <= at
    moment = datetime.fromtimestamp(max(model.stream_times.values()) / 1000, UTC)
    assert read_store(spark, root, as_of=moment).count() > 0


def test_only_some_columns(spark: SparkSession, published: logs.Published) -> None:
    root, model = published
    df = read_store(spark, root, columns=["partition", "key"])
    assert df.columns == ["partition", "key"]
    rows = {(row.partition, bytes(row.key)) for row in df.collect()}
    assert rows == {(v.shard, v.key) for v in model.history() if v.valid_to is None}
    assert read_store(spark, root, columns=["value"]).count() == len(rows)


def test_a_dataframe_keeps_to_its_version(spark: SparkSession, root: Path) -> None:
    log = logs.make_log(21, 200, logs.SHARDS)
    write_store(logs.log_frame(spark, log[:100]), root, logs.SPEC, partitions=logs.SHARDS)
    before = read_store(spark, root, history=True, timestamps="millis")
    write_store(logs.log_frame(spark, log), root, logs.SPEC, partitions=logs.SHARDS)
    assert logs.read_rows(before) == read(spark, root, history=True, version=1)
    assert logs.read_rows(before) != read(spark, root, history=True)


def test_reading_changes_nothing_on_disk(spark: SparkSession, published: logs.Published) -> None:
    root, _ = published
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert read(spark, root, history=True)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


class Celsius:
    """A serde that is not built in."""

    name = "celsius"

    @property
    def arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.float32()

    def serialize(self, value: float, headers: Headers) -> bytes:
        return f"{value:.1f} C".encode()

    def deserialize(self, data: bytes, headers: Headers) -> float:
        return float(data.decode().removesuffix(" C"))


def test_serdes_of_ones_own(spark: SparkSession, root: Path) -> None:
    spec = stores.versioned_key_value("heat", 10**6, key=serdes.INT64, value=Celsius())
    df = spark.sql("select id % 3 key, cast(id / 2 as float) value, id timestamp from range(30)")
    write_store(df, root, spec, partitions=2)
    rows = read_store(spark, root, spec=spec, history=True, timestamps="millis").collect()
    assert {(r.key, r.value, r.timestamp) for r in rows} == {(n % 3, n / 2, n) for n in range(30)}
    with pytest.raises(SpecError, match=r"no built-in serde 'celsius'.*Pass the spec .* as spec="):
        read_store(spark, root)


def test_json_is_text(spark: SparkSession, root: Path) -> None:
    spec = stores.timestamped_key_value("docs", key=serdes.UTF8, value=serdes.JSON)
    df = spark.sql("""select 'a' key, '{"total": 12}' value, 5L timestamp""")
    write_store(df, root, spec, partitions=1)
    (row,) = read_store(spark, root, timestamps="millis").collect()
    assert (row.key, row.value, row.timestamp) == ("a", '{"total": 12}', 5)


def test_what_cannot_be_read_is_told(spark: SparkSession, published: logs.Published) -> None:
    root, _ = published
    with pytest.raises(StateError, match="has no store: there is no manifest"):
        read_store(spark, root / "nothing")
    with pytest.raises(StateError, match="has no version 7; read a version from 1 to 1"):
        read_store(spark, root, version=7)
    with pytest.raises(
        SpecError, match="has no column 'valu'; its columns are: key, value, timestamp"
    ):
        read_store(spark, root, columns=["key", "valu"])
    with pytest.raises(ValueError, match="is naive"):
        read_store(spark, root, as_of=datetime(2020, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="pass only one of them"):
        read_store(spark, root, as_of=1, history=True)
    with pytest.raises(ValueError, match="need history=True"):
        read_store(spark, root, from_ts=1)
    with pytest.raises(ValueError, match="from_ts=2 is after to_ts=1"):
        read_store(spark, root, history=True, from_ts=2, to_ts=1)
    with pytest.raises(SpecError, match="timestamps must be 'timestamp' or 'millis', not 'ms'"):
        read_store(spark, root, timestamps="ms")  # type: ignore[arg-type]
    other = stores.versioned_key_value_with_headers("other", logs.RETENTION, logs.INTERVAL)
    with pytest.raises(SpecError, match="has the store 'rates', not 'other'"):
        read_store(spark, root, spec=other)
    with pytest.raises(FormatDowngradeError, match="has the format 'versioned_headers'"):
        read_store(
            spark, root, spec=stores.versioned_key_value("rates", logs.RETENTION, logs.INTERVAL)
        )


def test_a_store_without_versions_has_no_times_to_ask_for(spark: SparkSession, root: Path) -> None:
    spec = stores.timestamped_key_value("kv")
    write_store(logs.log_frame(spark, logs.make_log(22, 10, 1)), root, spec, partitions=1)
    for options in ({"as_of": 5}, {"history": True}):
        with pytest.raises(UnsupportedError, match="has no history"):
            read_store(spark, root, **options)


@pytest.mark.spoils_root
def test_a_lost_file_is_named(spark: SparkSession, root: Path) -> None:
    manifest = write_store(
        logs.log_frame(spark, logs.make_log(23, 50, 1)), root, logs.SPEC, partitions=1
    )
    shard = manifest.shards[0]
    victim = next(file for file in shard.files if file.path.endswith(".sst"))
    (root / str(shard.path) / victim.path).unlink()
    with (
        pytest.raises(CorruptionError, match=f"{victim.path} is missing"),
        Root.at(root).local_shard(shard),
    ):
        pass
    with pytest.raises(Exception, match=f"{victim.path} is missing"):
        read_store(spark, root).collect()

"""What read_store, write_store and temporal_join refuse, and what column names they take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError
from kstore_core.spark import read_store, temporal_join, write_store
from kstore_core.spark.shards.spool import DEFAULT_RUN_BYTES
from kstore_core.spark.write.job import WriteJob
from tests.spark.support.logs import (
    INTERVAL,
    RETENTION,
    SHARDS,
    SPEC,
    Model,
    log_frame,
    make_log,
    nothing_written,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a store."""
    root = tmp_path_factory.mktemp("published") / "root"
    write_store(log_frame(spark, make_log(40, 60, SHARDS)), root, SPEC, partitions=SHARDS)
    return root


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"columns": []},
            SpecError,
            r"columns=\[\] names no column.*name at least one of these columns: key",
        ),
        ({"columns": ("key", "value", "key")}, SpecError, "names 'key' more than once"),
        ({"version": True}, TypeError, "version=True is bool, not int"),
        ({"version": 1.0}, TypeError, r"version=1\.0 is float, not int"),
        ({"prefix": 3}, TypeError, "prefix=3 is int, not bytes or str; pass the first bytes"),
    ],
)
def test_reads_that_make_no_sense_are_refused(
    spark: SparkSession, published: Path, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        read_store(spark, published, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"timestamp": "k"}, SpecError, "key and timestamp both name the column 'k'"),
        ({"tolerance_ms": 499.5}, TypeError, r"tolerance_ms=499\.5 is float, not int"),
        ({"tolerance_ms": True}, TypeError, "tolerance_ms=True is bool"),
        ({"version": True}, TypeError, "version=True is bool, not int"),
    ],
)
def test_joins_that_make_no_sense_are_refused(
    spark: SparkSession, published: Path, options: Any, error: Any, message: str
) -> None:
    df = spark.sql("select cast('k1' as binary) k, 1000L t")
    with pytest.raises(error, match=message):
        temporal_join(df, published, **{"key": "k", "timestamp": "t", **options})


@pytest.mark.parametrize("inside", ["", "_kstore", "deeper"])
def test_a_root_that_is_a_file_is_refused(spark: SparkSession, tmp_path: Path, inside: str) -> None:
    root = file = tmp_path / "file"
    if inside == "_kstore":
        root.mkdir()
        file = root / inside
    elif inside:
        root = file / inside
    file.write_text("mine")
    with pytest.raises(StateError, match=f"{file} is a file, not a directory"):
        write_store(log_frame(spark, make_log(41, 5, SHARDS)), root, SPEC, partitions=SHARDS)
    with pytest.raises(StateError, match=f"{file} is a file"):
        read_store(spark, root)
    assert file.read_text() == "mine"


class Picky:
    """A serde that reads ``good`` only."""

    name = "picky"
    arrow_type = serdes.UTF8.arrow_type

    def serialize(self, value: str, headers: Any) -> bytes:
        return value.encode()

    def deserialize(self, data: bytes, headers: Any) -> str:
        if data != b"good":
            raise LookupError("not good")
        return "good"


@pytest.mark.parametrize(
    ("key", "value", "bad", "message"),
    [
        (
            serdes.BYTES,
            serdes.UTF8,
            "unhex('fffe')",
            r"^shard 0: the column 'value' contains b'\\xff\\xfe' of .* b'k7', .*'utf8'.*\.BYTES",
        ),
        (
            serdes.BYTES,
            serdes.FLOAT64,
            "unhex('010203')",
            r"contains b'\\x01\\x02\\x03'.*'float64'",
        ),
        (
            serdes.BYTES,
            serdes.JSON,
            "binary('{\"a\": 1,}')",
            r"contains b'\{\"a\": 1,\}' of the key b'k7'.*'json' cannot read: .*not valid JSON",
        ),
        (serdes.FLOAT64, serdes.BYTES, "null", r"column 'key' contains b'k0', .*key=serdes\.BYTES"),
        (
            serdes.BYTES,
            Picky(),
            "binary('bad')",
            "contains b'bad' of the key b'k7'.*'picky'.*not good",
        ),
    ],
)
def test_bytes_that_no_read_could_decode_are_refused(
    spark: SparkSession, root: Path, key: Any, value: Any, bad: str, message: str
) -> None:
    good = {"float64": "unhex('3ff0000000000000')", "json": "binary('[]')"}.get(
        value.name, "binary('good')"
    )
    df = spark.sql(
        f"select cast(concat('k', id) as binary) key, id timestamp, "
        f"case when id = 7 then {bad} when id = 3 then null else {good} end value from range(10)"
    ).coalesce(1)
    spec = stores.timestamped_key_value("s", key=key, value=value)
    with pytest.raises(SpecError, match=message):
        write_store(df, root, spec, partitions=1)
    assert nothing_written(root)
    if key is serdes.BYTES:
        write_store(df.where("timestamp <> 7"), root, spec, partitions=1)
        assert read_store(spark, root, spec=spec, columns=["key", "value"]).toArrow().num_rows == 8


@pytest.mark.parametrize("text", ["", "{", "nul", "1 2", "[1],[2]", '"a', "[" * 100_000])
def test_text_that_is_not_json_is_refused(spark: SparkSession, root: Path, text: str) -> None:
    rows = [(b"a", '{"é": [1]}', 1), (b"b", text, 2)]
    df = spark.createDataFrame(rows, "key binary, value string, timestamp long")
    spec = stores.timestamped_key_value("s", value=serdes.JSON)
    with pytest.raises(SpecError, match=r"of the key b'b', which the serde 'json' cannot read"):
        write_store(df, root, spec, partitions=1)
    assert nothing_written(root)
    write_store(df.where("timestamp = 1"), root, spec, partitions=1)
    assert read_store(spark, root).first().value == '{"é": [1]}'


def test_versions_within_a_millisecond_are_refused(spark: SparkSession, root: Path) -> None:
    df = spark.sql(
        "select binary('k') key, binary(string(id)) value, "
        "timestamp_micros(1700000000000000 + id) timestamp from range(2)"
    )
    spec = stores.versioned_key_value("s", history_retention_ms=10**9)
    with pytest.raises(SpecError, match=r"1 of 2 records have times with microseconds.*date_trunc"):
        write_store(df, root, spec, partitions=1)
    assert nothing_written(root)
    write_store(
        df.selectExpr("key", "value", "date_trunc('MILLISECOND', timestamp) timestamp"),
        root,
        spec,
        partitions=1,
    )
    assert read_store(spark, root, history=True).count() == 1
    plain = stores.timestamped_key_value("s")
    write_store(df, root.with_name("plain"), plain, partitions=1)
    found = read_store(spark, root.with_name("plain"), timestamps="millis").first()
    assert found.timestamp == 1_700_000_000_000


@pytest.mark.parametrize("broadcast_bytes", [10**9, 0])
def test_any_names_of_columns_pass_through_a_join(
    spark: SparkSession, published: Path, broadcast_bytes: int
) -> None:
    names = ["x.y", "k.`ey", "same", "same", "Same", "__kstore_shard", "shard", "column0", "t"]
    model = Model(SHARDS, RETENTION).put(make_log(40, 60, SHARDS))
    version = next(version for version in model.history() if version.valid_to is None)
    df = spark.sql(
        f"select 1, cast('{version.key.decode()}' as binary), 2, 3, 4, 5, 6, 7, 9999L "
        "union all select 8, null, 9, 10, 11, 12, 13, 14, null"
    ).toDF(*names)
    result = temporal_join(
        df, published, key="k.`ey", timestamp="t", broadcast_bytes=broadcast_bytes
    )
    plain = temporal_join(
        df.toDF("a", "k", *"bcdefg", "t"), published, key="k", timestamp="t", broadcast_bytes=10**9
    )
    assert result.columns == [
        *names,
        *("table_value", "table_timestamp", "table_valid_to", "table_headers"),
    ]
    rows = sorted(tuple(row) for row in result.collect())
    assert rows == sorted(tuple(row) for row in plain.collect())
    assert [row[0] for row in rows] == [1, 8]
    assert rows[0][9] == version.value
    assert rows[0][2:8] == (2, 3, 4, 5, 6, 7)


def test_overwrite_is_advised_only_where_it_would_do(spark: SparkSession, published: Path) -> None:
    df = log_frame(spark, make_log(42, 5, SHARDS))
    other = stores.versioned_key_value_with_headers("others", RETENTION, INTERVAL)
    for mode in ("append", "overwrite"):
        with pytest.raises(
            SpecError, match="name is 'rates' in the root and 'others' in this write"
        ) as caught:
            write_store(df, published, other, partitions=SHARDS, mode=mode)  # type: ignore[arg-type]
        assert str(caught.value).endswith(". Use another root")


@pytest.mark.parametrize("size", [0, -1, True, 2.5, 2**31])
def test_a_size_that_no_run_can_have_is_refused(
    spark: SparkSession, tmp_path: Path, size: Any
) -> None:
    df = log_frame(spark, make_log(42, 5, SHARDS))
    with pytest.raises(SpecError, match=r"^run_bytes=.* is not the size of a run in bytes; pass"):
        write_store(df, tmp_path / "root", SPEC, partitions=SHARDS, run_bytes=size)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("size", [None, 4096])
def test_tasks_get_the_size_of_a_run(
    spark: SparkSession, tmp_path: Path, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    writer_of = WriteJob.writer

    def writer(job: WriteJob, **options: Any) -> Any:
        made.append(writer_of(job, **options))
        return made[-1]

    monkeypatch.setattr(WriteJob, "writer", writer)
    df = log_frame(spark, make_log(43, 5, SHARDS))
    write_store(df, tmp_path / "root", SPEC, partitions=SHARDS, run_bytes=size)
    assert [writer.run_bytes for writer in made] == [size or DEFAULT_RUN_BYTES]

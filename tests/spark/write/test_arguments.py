"""What read_store, write_store and temporal_join refuse, and what column names they take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError
from kstore_core.spark import read_store, temporal_join, write_store
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
    good = "unhex('3ff0000000000000')" if value is serdes.FLOAT64 else "binary('good')"
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

"""write_store: what is refused, before anything is visible."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import SpecError, StateError, UnknownEngineError, UnsupportedError
from kstore_core.spark import write_store
from tests.spark.support.logs import RETENTION, SHARDS, SPEC, log_frame, make_log, nothing_written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql_log(spark: SparkSession, columns: str, rows: int = 10) -> DataFrame:
    return spark.sql(f"select {columns} from range({rows})")


GOOD = (
    "cast('k' as binary) key, cast('v' as binary) value, timestamp_millis(id) timestamp, "
    "array(named_struct('key', 'h', 'value', cast('1' as binary))) headers"
)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id", r"'key' is missing; 'value' is missing; .*'id' is unknown"),
        (
            GOOD.replace("timestamp_millis(id)", "timestamp_ntz'2020-01-01'"),
            "'timestamp' is timestamp_ntz, not timestamp or bigint, so cast it to timestamp",
        ),
        (
            GOOD.replace("timestamp_millis(id)", "date'2020-01-01'"),
            "'timestamp' is date, not timestamp or bigint, so cast it to timestamp",
        ),
        (GOOD + ", 1 extra", "'extra' is unknown"),
        (GOOD + ", '0' partition", "'partition' is string, not int or bigint"),
        (GOOD.replace("cast('k' as binary)", "id"), "'key' is bigint, not binary"),
        (GOOD.replace("cast('v' as binary)", "'v'"), "'value' is string, not binary"),
        (GOOD.rsplit(", array", 1)[0], r"'headers' is missing.*includeHeaders=true"),
        (
            GOOD.replace("'1' as binary", "1 as int"),
            "'headers' is array<struct<key:string,value:int>>",
        ),
        (GOOD + ", cast('k' as binary) key", "'key' is duplicate"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: SparkSession, root: Path, columns: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_store(sql_log(spark, columns), root, SPEC, partitions=2)
    assert nothing_written(root)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            GOOD.replace("cast('k' as binary)", "if(id = 7, null, cast('k' as binary))"),
            {},
            "1 of 10 records have no key",
        ),
        (
            GOOD.replace("timestamp_millis(id)", "if(id > 7, null, id)"),
            {},
            "2 of 10 records have no timestamp",
        ),
        (GOOD.replace("timestamp_millis(id)", "id - 1"), {}, r"the time -1 ms, but .* before 1970"),
        (GOOD + ", 5 partition", {}, r"10 records have a partition .*example 5. With partitions=2"),
        (GOOD + ", -1 partition", {}, "for example -1"),
        (
            GOOD + ", 'in' topic, -1 partition, id offset",
            {"partition_by": "key"},
            "records have the partition -1, which is not from 0 to 2147483647",
        ),
        (GOOD + ", cast(null as int) partition", {}, "10 of 10 records have no partition"),
        (
            GOOD + ", 1 partition",
            {},
            r"partition 1, but .* the key b'k' belongs to partition 0 of 2",
        ),
        (GOOD + ", 1 partition", {"partition_by": "partition"}, "partition_by='key'"),
        (GOOD + ", if(id = 3, null, id) offset", {}, "1 of 10 records have no offset"),
    ],
)
def test_records_that_do_not_fit_are_told(
    spark: SparkSession, root: Path, columns: str, options: Any, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_store(sql_log(spark, columns), root, SPEC, partitions=2, **options)
    assert nothing_written(root)


def test_arguments_that_do_not_fit_are_told(spark: SparkSession, root: Path) -> None:
    df = sql_log(spark, GOOD)
    with pytest.raises(SpecError, match=r"mode must be 'append', .* not 'upsert'"):
        write_store(df, root, SPEC, partitions=2, mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="partitions=0"):
        write_store(df, root, SPEC, partitions=0)
    with pytest.raises(SpecError, match=f"partitions={2**31} is not .* to {2**31 - 1}"):
        write_store(df, root, SPEC, partitions=2**31)
    with pytest.raises(TypeError, match="spec='rates' is str, not a StoreSpec"):
        write_store(df, root, "rates", partitions=2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"df is a pyarrow\.lib\.Table, not a DataFrame of Spark"):
        write_store(pa.table({"key": []}), root, SPEC, partitions=2)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="partition_by must be 'key' or 'partition', not 'keys'"):
        write_store(df, root, SPEC, partitions=2, partition_by="keys")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="needs a column 'partition'"):
        write_store(df, root, SPEC, partitions=2, partition_by="partition")
    with pytest.raises(UnsupportedError, match="'memory' keeps its data in the process"):
        write_store(df, root, SPEC, partitions=2, engine="memory")
    with pytest.raises(UnknownEngineError, match="no engine named 'rocks'"):
        write_store(df, root, SPEC, partitions=2, engine="rocks")
    with pytest.raises(UnsupportedError, match="webdav: is not supported"):
        write_store(df, "webdav://host/x", SPEC, partitions=2)
    with pytest.raises(SpecError, match="is a directory of this machine; leave the options out"):
        write_store(df, root, SPEC, partitions=2, storage_options={"key": "x"})
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UnsupportedError, match="is a stream"):
        write_store(stream, root, SPEC, partitions=2)
    assert nothing_written(root)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (
            stores.versioned_key_value_with_headers("other", RETENTION, 40),
            {},
            "name is 'rates' in the root and 'other' in this write",
        ),
        (
            stores.timestamped_key_value_with_headers("rates"),
            {},
            "shape is 'versioned' in the root",
        ),
        (
            stores.timestamped_key_value_with_headers("rates"),
            {"mode": "overwrite"},
            "shape is .*Use another root",
        ),
        (
            stores.versioned_key_value("rates", RETENTION, 40),
            {},
            "format is 'versioned_headers' in the root",
        ),
        (
            stores.versioned_key_value_with_headers("rates", RETENTION, 41),
            {},
            "segment_interval_ms is 40 in the root",
        ),
        (
            stores.versioned_key_value_with_headers("rates", RETENTION, 40, key=serdes.UTF8),
            {},
            "key is 'bytes' in the root",
        ),
        (SPEC, {"partitions": 4}, "partitions is 3 in the root and 4 .*or pass mode='overwrite'"),
    ],
)
def test_another_store_at_the_root_is_refused(
    spark: SparkSession, root: Path, spec: Any, options: Any, message: str
) -> None:
    write_store(log_frame(spark, make_log(15, 20, SHARDS)), root, SPEC, partitions=SHARDS)
    before = sorted(root.rglob("*"))
    with pytest.raises(SpecError, match=message):
        write_store(
            log_frame(spark, make_log(16, 20, SHARDS)),
            root,
            spec,
            **{"partitions": SHARDS, **options},
        )
    assert sorted(root.rglob("*")) == before


def test_a_state_directory_is_no_root(spark: SparkSession, root: Path) -> None:
    with open_state(root, engine="rocksdb") as state:
        state.open(SPEC)
    with pytest.raises(StateError, match="has no partitioned store"):
        write_store(sql_log(spark, GOOD), root, SPEC, partitions=2)

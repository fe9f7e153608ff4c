"""foreign_key_join against the same join in SQL, and against temporal joins at single times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError, UnsupportedError
from kstore_core.spark import foreign_key_join, read_store, write_store
from tests.spark.support.logs import Record, log_frame, make_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT = stores.versioned_key_value_with_headers("left", 10**9, value=serdes.UTF8)
RIGHT = stores.versioned_key_value_with_headers("right", 10**9)
NAMED = "encode(concat('k', substr(value, -1)), 'utf-8')"
"""The key that a left value names: its last digit is the number of one."""


@pytest.fixture(scope="module")
def roots(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("roots")
    write_store(log_frame(spark, make_log(71, 200, 2)), home / "left", LEFT, partitions=2)
    right = log_frame(spark, make_log(72, 300, 3, keys=9, span=1_200))
    write_store(right, home / "right", RIGHT, partitions=3)
    return home / "left", home / "right"


IN_SQL = f"""
    with l as (select *, {NAMED} foreign_key from left_history),
    spans as (
        select l.*, r.value foreign_value, r.timestamp foreign_timestamp, r.headers foreign_headers,
               greatest(l.timestamp, r.timestamp) valid_from, least(l.valid_to, r.valid_to) until
        from l join right_history r on l.foreign_key = r.key
        where l.timestamp < coalesce(r.valid_to, {2**62})
          and r.timestamp < coalesce(l.valid_to, {2**62}))
    select key, value, timestamp, headers, foreign_key, foreign_value, foreign_timestamp,
           foreign_headers, valid_from, until valid_to from spans
"""


def lines(df: DataFrame) -> list[str]:
    return sorted(str(row) for row in df.toArrow().to_pylist())


@pytest.mark.parametrize(("broadcast_bytes", "cache_bytes"), [(10**9, 10**9), (0, 10**9), (0, 0)])
def test_it_is_the_join_of_both_histories(
    spark: SparkSession, roots: tuple[Path, Path], broadcast_bytes: int, cache_bytes: int
) -> None:
    left, right = roots
    for name, root in (("left", left), ("right", right)):
        history = read_store(spark, root, history=True, timestamps="millis")
        history.createOrReplaceTempView(f"{name}_history")
    result = foreign_key_join(
        spark,
        left,
        right,
        foreign_key=NAMED,
        timestamps="millis",
        broadcast_bytes=broadcast_bytes,
        cache_bytes=cache_bytes,
    )
    wanted = spark.sql(IN_SQL)
    assert result.columns == wanted.columns
    assert lines(result) == lines(wanted)
    assert 300 < result.count() < 3_000


def test_at_any_time_it_is_the_join_as_of_it(spark: SparkSession, roots: tuple[Path, Path]) -> None:
    left, right = roots
    options: Any = {"how": "left", "timestamps": "millis"}
    spans = foreign_key_join(spark, left, right, foreign_key=NAMED, **options).cache()
    for time in (1_100, 1_500, 1_900):
        one = read_store(spark, left, as_of=time).selectExpr("key", "value", f"{NAMED} foreign_key")
        other = read_store(spark, right, as_of=time).selectExpr(
            "key foreign_key", "value foreign_value"
        )
        wanted = one.join(other, "foreign_key", "left").select(
            "key", "value", "foreign_key", "foreign_value"
        )
        valid = f"valid_from <= {time} and (valid_to > {time} or valid_to is null)"
        found = spans.where(valid).select("key", "value", "foreign_key", "foreign_value")
        assert lines(found) == lines(wanted)
        assert found.count() > 5


def test_values_types_and_a_left_store_of_the_present(spark: SparkSession, tmp_path: Path) -> None:
    """A JSON value names its key; a change on either side begins a row of its own."""
    orders = stores.timestamped_key_value("orders", key=serdes.UTF8, value=serdes.JSON)
    rates = stores.versioned_key_value("rates", 10**12, key=serdes.UTF8, value=serdes.FLOAT64)
    spark.sql("""
        select * from values ('o-1', '{"in": "CHF"}', timestamp('2015-01-14')),
            ('o-2', '{}', timestamp('2015-01-14')) as t(key, value, timestamp)
    """).createOrReplaceTempView("orders")
    write_store(spark.table("orders"), tmp_path / "orders", orders, partitions=1)
    log = spark.sql("""
        select * from values ('CHF', 1.2D, timestamp('2015-01-13')),
            ('CHF', 1.0D, timestamp('2015-01-15')) as t(key, value, timestamp)
    """).coalesce(1)
    write_store(log, tmp_path / "rates", rates, partitions=2)
    result = foreign_key_join(
        spark,
        tmp_path / "orders",
        tmp_path / "rates",
        foreign_key="get_json_object(value, '$.in')",
        how="left",
    )
    kinds = {field.name: field.dataType.simpleString() for field in result.schema.fields}
    assert list(kinds) == [
        *("key", "value", "timestamp", "foreign_key", "foreign_value", "foreign_timestamp"),
        *("valid_from", "valid_to"),
    ]
    assert {kinds[name] for name in ("timestamp", "foreign_timestamp", "valid_from")} == {
        "timestamp"
    }
    rows = result.selectExpr(
        "key", "foreign_key", "foreign_value", "day(valid_from)", "day(valid_to)"
    )
    assert sorted(map(tuple, rows.collect()), key=str) == [
        ("o-1", "CHF", 1.0, 15, None),
        ("o-1", "CHF", 1.2, 14, 15),
        ("o-2", None, None, 14, None),
    ]


def test_what_cannot_be_joined_is_told(
    spark: SparkSession, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    left, right = roots
    with pytest.raises(StateError, match="has no store"):
        foreign_key_join(spark, tmp_path / "no", right, foreign_key="value")
    with pytest.raises(SpecError, match="column 'foreign_key' is string, not binary"):
        foreign_key_join(spark, left, right, foreign_key="value")
    for name in ("how", "on_expired", "timestamps"):
        with pytest.raises(SpecError, match=f"{name} must be '.* not 'x'"):
            foreign_key_join(spark, left, right, foreign_key=NAMED, **{name: "x"})
    plain = tmp_path / "plain"
    log = log_frame(spark, [Record(b"a", b"1", 10)])
    write_store(log, plain, stores.key_value("kv", value=serdes.UTF8), partitions=1)
    with pytest.raises(UnsupportedError, match="pass a versioned store, or a key-value store"):
        foreign_key_join(spark, plain, right, foreign_key=NAMED)
    with pytest.raises(UnsupportedError, match="has no history"):
        foreign_key_join(spark, left, plain, foreign_key=NAMED)

"""Stores with typed values: what Spark writes is what Spark reads, joins and compares."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import SpecError
from kstore_core.serdes import Serde
from kstore_core.spark import read_changes, read_store, temporal_join, write_store
from kstore_core.spark.root.manifest import manifest_spec
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = (
    "struct<sku:string,price:decimal(10,2),at:timestamp,days:array<date>,"
    "inner:struct<ok:boolean,raw:binary,x:double>,rates:map<string,bigint>>"
)
EAST = dt.timezone(dt.timedelta(hours=9))


def row(sku: str | None, price: str | None, **more: Any) -> dict[str, Any]:
    none = dict.fromkeys(("at", "days", "inner", "rates"))
    return {"sku": sku, "price": None if price is None else Decimal(price), **none, **more}


FULL = row(
    'a"é\n',
    "-99999999.99",
    at=dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC),
    days=[dt.date(1, 1, 1), None],
    inner={"ok": True, "raw": b"\xff", "x": 0.1},
    rates={"x": -1, "y": None},
)
ROWS = [FULL, row("b", "0.01"), row(None, None, days=[], rates={})]
CASES: dict[str, tuple[Serde[Any], str, list[Any]]] = {
    "boolean": (serdes.BOOLEAN, "boolean", [True, False, True]),
    "date": (serdes.DATE, "date", [dt.date(1969, 1, 1), dt.date(9999, 12, 31), dt.date(1, 1, 1)]),
    "timestamp": (
        serdes.TIMESTAMP,
        "timestamp",
        [
            dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC),
            dt.datetime(2020, 1, 1, tzinfo=EAST),
            dt.datetime(2020, 1, 1, 0, 0, 0, 123_456, dt.UTC),
        ],
    ),
    "decimal": (
        serdes.decimal(20, 5),
        "decimal(20,5)",
        [Decimal("-1.00000"), Decimal("999999999999999.99999"), Decimal("0.00001")],
    ),
    "json": (serdes.json_row(ROW), ROW, ROWS),
    "arrow": (serdes.arrow_row(ROW), ROW, ROWS),
}


def spec_of(serde: Serde[Any]) -> StoreSpec:
    return stores.versioned_key_value_with_headers(
        "typed", history_retention_ms=86_400_000, key=serdes.UTF8, value=serde
    )


def plain(value: Any) -> Any:
    """The value of a column as Python objects, with times in UTC."""
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def values_of(frame: Any) -> list[Any]:
    return [plain(r.value) for r in frame.orderBy("key", "timestamp").collect()]


@pytest.mark.parametrize("kind", CASES)
def test_typed_values_are_written_read_joined_and_compared(
    spark: SparkSession, root: Path, kind: str
) -> None:
    serde, sql, values = CASES[kind]
    schema = (
        f"key string, value {sql}, timestamp bigint, headers array<struct<key:string,value:binary>>"
    )
    log = [(f"k{n}", value, 1000 + n, []) for n, value in enumerate(values)]
    write_store(spark.createDataFrame(log, schema), root, spec_of(serde), partitions=2)

    read = read_store(spark, root)
    assert read.schema["value"].dataType.simpleString() == sql
    wanted = [plain(value) for value in values]
    assert values_of(read) == wanted

    events = spark.createDataFrame([(f"k{n}", 5000) for n in range(4)], "k string, t bigint")
    joined = temporal_join(events, root, key="k", timestamp="t").orderBy("k").collect()
    assert [plain(r.table_value) for r in joined] == [*wanted, None]

    newer = [("k0", values[1], 2000, []), ("k1", None, 2001, [])]
    write_store(spark.createDataFrame(newer, schema), root)
    changes = read_changes(spark, root, 1, 2).where("key in ('k0', 'k1')").collect()
    assert {r.key for r in changes} == {"k0", "k1"}
    assert values_of(read_store(spark, root, key="k0")) == [wanted[1]]
    assert values_of(read_store(spark, root, key="k1")) == []

    shard = Root.at(root).load().shards[partition(b"k2", 2)]
    assert shard.path is not None
    with open_state(root / shard.path, read_only=True) as state:
        found = state.open(manifest_spec(Root.at(root).load(), None, "")).get("k2")
        assert found is not None
        assert found.value == wanted[2]


@pytest.mark.parametrize("kind", ["json", "arrow"])
def test_serialised_rows_are_accepted_and_checked(
    spark: SparkSession, root: Path, kind: str
) -> None:
    """Kafka's source has bytes. A record that no reader could read is refused."""
    serde = CASES[kind][0]
    spec = stores.key_value("typed", key=serdes.UTF8, value=serde)
    good = bytearray(serde.serialize(FULL, None) or b"")  # type: ignore[arg-type]
    frame = spark.createDataFrame([("a", good)], "key string, value binary")
    write_store(frame, root, spec, partitions=2)
    assert [plain(r.value) for r in read_store(spark, root).collect()] == [FULL]
    bad = spark.createDataFrame([("a", good), ("b", bytearray(b"{"))], "key string, value binary")
    with pytest.raises(SpecError, match=r"'value' contains b'\{' of the key b'b', which the serde"):
        write_store(bad, root)
    assert Root.at(root).versions() == [1]


@pytest.mark.parametrize(
    ("kind", "sql", "message"),
    [
        ("decimal", "decimal(10,2)", r"'value' is decimal\(10,2\), not binary or decimal\(20,5\)"),
        ("timestamp", "timestamp_ntz", r"not binary or timestamp, so cast it to timestamp"),
        ("timestamp", "date", r"'value' is date, not binary or timestamp, so cast it"),
        ("date", "timestamp", r"'value' is timestamp, not binary or date"),
        ("boolean", "int", r"'value' is int, not binary or boolean"),
        ("json", "struct<sku:string>", r"'value' is struct<sku:string>, not binary or struct<"),
        ("json", "string", r"'value' is string, not binary or struct<"),
    ],
)
def test_columns_of_other_types_are_refused(
    spark: SparkSession, root: Path, kind: str, sql: str, message: str
) -> None:
    frame = spark.sql(f"select 'a' key, cast(null as {sql}) value, 1L timestamp").selectExpr(
        "*", "cast(array() as array<struct<key:string,value:binary>>) headers"
    )
    with pytest.raises(SpecError, match=message):
        write_store(frame, root, spec_of(CASES[kind][0]), partitions=2)


def test_keys_may_be_typed(spark: SparkSession, root: Path) -> None:
    spec = stores.key_value("typed", key=serdes.DATE, value=serdes.decimal(5, 2))
    days = [dt.date(2020, 1, n) for n in range(1, 9)]
    log = [(day, Decimal(n)) for n, day in enumerate(days)]
    frame = spark.createDataFrame(log, "key date, value decimal(5,2)")
    write_store(frame, root, spec, partitions=3)
    assert {r.key: r.value for r in read_store(spark, root).collect()} == dict(log)
    (found,) = read_store(spark, root, key=days[3]).collect()
    assert found.value == 3
    source = spark.read.format("kstore").option("path", str(root)).option("key", "2020-01-04")
    assert [r.value for r in source.load().collect()] == [3]
    with pytest.raises(SpecError, match=r"not a key of the store 'typed'"):
        read_store(spark, root, key="2020-01-04")


def test_an_append_with_another_type_is_refused(spark: SparkSession, root: Path) -> None:
    schema = "key string, value decimal(5,2)"
    frame = spark.createDataFrame([("a", Decimal("1.00"))], schema)
    spec = stores.key_value("typed", key=serdes.UTF8, value=serdes.decimal(5, 2))
    write_store(frame, root, spec, partitions=2)
    other = stores.key_value("typed", key=serdes.UTF8, value=serdes.decimal(6, 2))
    with pytest.raises(SpecError, match=r"value is 'decimal\(5,2\)' in the root and 'decimal\(6,2"):
        write_store(frame.selectExpr("key", "cast(value as decimal(6,2)) value"), root, other)


def test_stored_bytes_of_another_type_are_a_format_error(spark: SparkSession, root: Path) -> None:
    """A caller passes the spec of another type."""
    frame = spark.createDataFrame([("a", bytearray(b"xy"))], "key string, value binary")
    write_store(frame, root, stores.key_value("typed", key=serdes.UTF8), partitions=2)
    wrong = stores.key_value("typed", key=serdes.UTF8, value=serdes.json_row("struct<a:int>"))
    with pytest.raises(Exception, match=r"cannot read the values of the store 'typed'.*not a JSON"):
        read_store(spark, root, spec=wrong).collect()

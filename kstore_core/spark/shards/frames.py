"""The columns of a DataFrame that is a changelog: their types and checks, and the shard column."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from kstore_core.serdes import Serde

__all__ = [
    "check_columns",
    "check_log",
    "check_log_columns",
    "headers_type",
    "in_order",
    "renamed",
    "route_log",
    "shard_column",
    "shard_of_log",
    "spark_schema",
    "spark_type",
]

_PLAIN_TYPES = {
    "timestamp": ("timestamp", "bigint"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int", "bigint"),
    "offset": ("bigint", "int"),
    "timestampType": ("int",),
    "arrival": ("bigint",),
}
_TIME_TYPES = ("timestamp", "bigint")


def spark_type(arrow: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(arrow, prefer_timestamp_ntz=False)


def spark_schema(arrow: pa.Schema) -> StructType:
    """Return the Spark schema of an Arrow schema."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for field in arrow:
        schema.add(field.name, spark_type(field.type))
    return schema


def renamed(schema: StructType, names: Iterable[str]) -> StructType:
    """Return a schema with other column names."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def headers_type() -> DataType:
    """Return the Spark type of a column of headers."""
    from kstore_core import arrow

    return spark_type(arrow.headers_type())


def check_columns(df: DataFrame, allowed: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a DataFrame has each column in ``allowed`` once, with an allowed type.

    Raise a SpecError otherwise. ``allowed`` maps the names of columns to their Spark types.
    """
    names = df.columns
    for name, kinds in allowed.items():
        if names.count(name) != 1:
            there = "two columns" if name in names else "no column"
            raise SpecError(
                f"the DataFrame has {there} {name!r}; its columns are: {', '.join(names)}"
            )
        kind = df.schema[name].dataType.simpleString()
        if kind not in kinds:
            wanted = " or ".join(dict.fromkeys(kinds))
            raise SpecError(f"the column {name!r} is {kind}, not {wanted}")


def check_log(df: DataFrame, spec: StoreSpec, *, partition_time: bool = False) -> None:
    """Check that a DataFrame is a batch with the columns of a changelog of ``spec``.

    Raise a TypeError if ``df`` is not a DataFrame of Spark, an UnsupportedError if it is a stream,
    and a SpecError if its columns are wrong.
    """
    if not hasattr(df, "isStreaming"):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__name__}, not a DataFrame of Spark; "
            "convert the table with spark.createDataFrame(df)"
        )
    if df.isStreaming:
        raise UnsupportedError(
            "write_store takes a batch DataFrame, but this DataFrame is a stream; pass it to "
            "stream_into instead"
        )
    check_log_columns(df.schema, spec, partition_time=partition_time)


def check_log_columns(schema: StructType, spec: StoreSpec, *, partition_time: bool = False) -> None:
    """Check that columns are those of a changelog of ``spec``.

    Raise a SpecError that names each column that is missing, unknown, duplicate, or of a wrong
    type. Raise a TypeError if ``spec`` is not a StoreSpec.
    """
    if not isinstance(spec, StoreSpec):
        raise TypeError(
            f"spec={spec!r} is {type(spec).__name__}, not a StoreSpec; make a spec with a function "
            "of kstore_core.stores"
        )
    types, wanted = _log_types(spec, [field.name for field in schema.fields])
    if not isinstance(partition_time, bool):
        raise SpecError(
            f"partition_time={partition_time!r} is not True or False. With True, kstore reads the "
            "header 'partition-time' in the column 'headers'; you cannot pass the name of a column"
        )
    if partition_time and spec.shape == "key_value":
        raise SpecError(
            f"the key-value store {spec.name!r} has no stream time that partition_time=True could "
            "advance; leave out partition_time"
        )
    if partition_time and "headers" not in wanted:
        wanted.append("headers")
    names = [field.name for field in schema.fields]
    faults = [f"{name!r} is missing" for name in wanted if name not in names]
    faults += [f"{name!r} is duplicate" for name in sorted(set(names)) if names.count(name) > 1]
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in types:
            faults.append(f"{field.name!r} is unknown")
        elif kind not in types[field.name]:
            allowed = " or ".join(dict.fromkeys(types[field.name]))
            faults.append(f"{field.name!r} is {kind}, not {allowed}")
    if faults:
        raise SpecError(
            f"the DataFrame is not a changelog for the store {spec.name!r}: {'; '.join(faults)}. "
            "Pass the columns of Spark's Kafka source: key, value, timestamp, and optionally "
            f"headers, topic, partition, offset{_hint(spec, faults)}"
        )


def _log_types(
    spec: StoreSpec, names: Collection[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the allowed types of a changelog's columns, and the names of its required columns."""
    from kstore_core.spark.columns.log_keys import tail_bytes, times_of_shape

    key_types = ("binary", spark_type(spec.key.arrow_type).simpleString())
    types = {
        "key": ("binary",) if tail_bytes(spec, names) else key_types,
        "value": ("binary", spark_type(spec.value.arrow_type).simpleString()),
        **_PLAIN_TYPES,
    }
    wanted = ["key", "value"]
    if spec.format.timestamped or spec.format.versioned:
        wanted.append("timestamp")
    if spec.format.headers:
        wanted.append("headers")
    times = times_of_shape(spec)
    types.update(dict.fromkeys(times, _TIME_TYPES))
    if any(name in names for name in times):
        wanted += times
        if spec.shape == "window":
            types["window_end"] = _TIME_TYPES
            if spec.retain_duplicates:
                types["sequence"] = ("int", "bigint")
                wanted.append("sequence")
    return types, wanted


def _hint(spec: StoreSpec, faults: list[str]) -> str:
    """Return advice on some of the faults, to append to the message."""
    from kstore_core.spark.columns.log_keys import times_of_shape

    hint = ""
    if "'headers' is missing" in faults:
        hint = (
            f". The format {spec.format.name!r} has headers, so read Kafka with the option "
            "includeHeaders=true, or add a column of empty headers"
        )
    times = times_of_shape(spec)
    if times:
        more = ", and window_end" if spec.shape == "window" else ""
        more += ", and sequence" if spec.retain_duplicates else ""
        hint += (
            f". For a {spec.shape} store, pass either the user's keys with the columns "
            f"{' and '.join(times)}{more}, or binary keys as in the changelog of a {spec.shape} "
            "store"
        )
    return hint


def route_log(
    df: DataFrame, spec: StoreSpec, *, by_key: bool, partitions: int, partition_time: bool = False
) -> DataFrame:
    """Select the columns that a write reads, and route the rows to the tasks of their shards.

    The first column of the result is ``shard``. ``by_key`` is as in :func:`shard_of_log`.
    """
    from kstore_core.spark.shards.log import LOG_COLUMNS

    names = df.columns
    left_out = set() if "offset" in names else {"topic", "partition"}
    left_out |= set() if spec.format.headers or partition_time else {"headers"}
    chosen = [name for name in names if name in LOG_COLUMNS and name not in left_out]
    shard = shard_of_log(df, spec, by_key=by_key, partitions=partitions)
    log = in_order(df.select(shard.alias("shard"), *chosen))
    return log.repartitionById(partitions, "shard")


def shard_of_log(df: DataFrame, spec: StoreSpec, *, by_key: bool, partitions: int) -> Column:
    """Return the column of the shards of a changelog's records.

    If ``by_key`` is true, murmur2 of the key selects the shard; if it is false, the shard is the
    number in the column ``partition``.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from kstore_core.spark.columns.log_keys import tail_bytes

    if not by_key:
        return F.col("partition").cast("int")
    return shard_column(F.col("key"), spec.key, partitions, tail=tail_bytes(spec, df.columns))


def in_order(df: DataFrame) -> DataFrame:
    """Add the column ``arrival``, which numbers the records of a changelog in their order.

    A changelog with a column ``offset`` or ``arrival`` is returned unchanged.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if "offset" in df.columns or "arrival" in df.columns:
        return df
    return df.withColumn("arrival", F.monotonically_increasing_id())


def shard_column(key: Column, serde: Serde[Any], partitions: int, *, tail: int = 0) -> Column:
    """Return the column of the shards that murmur2 of the serialised keys selects.

    A null key is in shard 0. The last `tail` bytes of binary keys do not affect the shard.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    from kstore_core.spark.columns.shard_ids import ShardOfKey

    shards = ShardOfKey(serde, partitions, tail)
    udf = arrow_udf(shards.__call__, "int")  # type: ignore[call-overload]
    return cast("Column", udf(key))

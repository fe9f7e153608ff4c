"""Functions that check the columns of a changelog DataFrame, and that route its rows to shards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.serdes import BUILT_IN
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from kstore_core.serdes import Serde

__all__ = [
    "check_batch",
    "check_columns",
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
_NARROWER = {
    "int": ("smallint", "tinyint"),
    "bigint": ("int", "smallint", "tinyint"),
    "double": ("float", "int", "smallint", "tinyint"),
}
"""Some types of numbers, each with the narrower types whose numbers it can represent exactly."""

_OTHER_TIMES = ("timestamp_ntz", "date")
"""Spark types that are not instants. A cast interprets them in the time zone of the session."""


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


def accepted_types(serde: Serde[Any]) -> tuple[str, ...]:
    """Return the Spark types of columns that a serde can serialise.

    The first type is binary, for values that are serialised already. The second type is the serde's
    own. The other types are types of numbers that fit into the serde's own type without loss.
    """
    own = spark_type(serde.arrow_type).simpleString()
    narrower = _NARROWER.get(own, ()) if serde is BUILT_IN.get(serde.name) else ()
    return ("binary", own, *narrower)


def renamed(schema: StructType, names: Iterable[str]) -> StructType:
    """Return a copy of ``schema`` whose columns have the given names, in the same order."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(name, field.dataType, field.nullable, field.metadata)
            for name, field in zip(names, schema.fields, strict=True)
        ]
    )


def headers_type() -> DataType:
    """Return the Spark type of a column that contains the headers of records."""
    from kstore_core import arrow

    return spark_type(arrow.headers_type())


def check_columns(df: DataFrame, allowed: Mapping[str, tuple[str, ...]]) -> None:
    """Check that a DataFrame has each column in ``allowed`` exactly once, with an allowed type.

    ``allowed`` maps the name of each required column to its allowed Spark types. Raise a SpecError
    if a column is missing, is duplicate, or has a type that is not allowed.
    """
    names = df.columns
    for name, kinds in allowed.items():
        if names.count(name) != 1:
            there = "several columns" if name in names else "no column"
            raise SpecError(
                f"the DataFrame has {there} {name!r}; its columns are: {', '.join(names)}"
            )
        kind = df.schema[name].dataType.simpleString()
        if kind not in kinds:
            raise SpecError(f"the column {_misfit(name, kind, kinds)}")


def _misfit(name: str, kind: str, allowed: Collection[str]) -> str:
    """Return the text of an error for a column whose type is not allowed."""
    castable = "timestamp" in allowed and kind in _OTHER_TIMES
    cast_it = ", so cast it to timestamp" if castable else ""
    return f"{name!r} is {kind}, not {' or '.join(dict.fromkeys(allowed))}{cast_it}"


def check_batch(df: DataFrame) -> None:
    """Check that ``df`` is a DataFrame of Spark, but not a stream.

    Raise a TypeError if ``df`` is another object. Raise an UnsupportedError if ``df`` is a
    streaming DataFrame.
    """
    if not hasattr(df, "isStreaming"):
        raise TypeError(
            f"df is a {type(df).__module__}.{type(df).__name__}, not a DataFrame of Spark; "
            "convert the table with spark.createDataFrame(df)"
        )
    if df.isStreaming:
        raise UnsupportedError(
            "df is a streaming DataFrame, but a batch DataFrame is required; to write a stream, "
            "call stream_into instead of write_store"
        )


def check_log_columns(schema: StructType, spec: StoreSpec, *, partition_time: bool = False) -> None:
    """Check that the columns of ``schema`` are those of a changelog for the store of ``spec``.

    Raise a SpecError if a column is missing, is unknown, is duplicate, or has a wrong type. The
    error names all such columns. Raise a TypeError if ``spec`` is not a StoreSpec.
    """
    if not isinstance(spec, StoreSpec):
        raise TypeError(
            f"spec={spec!r} is {type(spec).__name__}, not a StoreSpec; make a spec with a function "
            "of kstore_core.stores"
        )
    types, wanted = _log_types(spec, [field.name for field in schema.fields])
    if not isinstance(partition_time, bool):
        raise SpecError(
            f"partition_time must be True or False, not {partition_time!r}. With True, kstore "
            "reads the partition time from the header 'partition-time' in the column 'headers'; no "
            "other column can be used"
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
            faults.append(_misfit(field.name, kind, types[field.name]))
    if faults:
        raise SpecError(
            f"the DataFrame is not a changelog for the store {spec.name!r}: {'; '.join(faults)}. "
            f"Pass the columns of Spark's Kafka source: {', '.join(wanted)}, and optionally "
            f"topic, partition, offset{_hint(spec, faults)}"
        )


def _log_types(
    spec: StoreSpec, names: Collection[str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the Spark types that each column of a changelog may have, and the required columns."""
    from kstore_core.spark.columns.log_keys import tail_bytes, times_of_shape

    key_types = accepted_types(spec.key)
    types = {
        "key": ("binary",) if tail_bytes(spec, names) else key_types,
        "value": accepted_types(spec.value),
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
    """Return advice about the faults, which the caller appends to the text of the error."""
    from kstore_core.spark.columns.log_keys import times_of_shape

    hint = ""
    if "'headers' is missing" in faults:
        why = "partition_time=True needs headers"
        if spec.format.headers:
            why = f"The format {spec.format.name!r} has headers"
        hint = (
            f". {why}, so read Kafka with the option includeHeaders=true, or add a column of empty "
            "headers"
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
    """Select the columns that a write needs, and move each row to the Spark partition of its shard.

    The first column of the result is ``shard``, which contains the number of the row's shard.
    :func:`shard_of_log` describes ``by_key``.
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
    """Return a column with the number of the shard of each record.

    If ``by_key`` is true, the murmur2 hash of the record's key selects the shard. If ``by_key`` is
    false, the column ``partition`` contains the number of the shard.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    from kstore_core.spark.columns.log_keys import tail_bytes

    if not by_key:
        return F.col("partition").cast("int")
    return shard_column(F.col("key"), spec.key, partitions, tail=tail_bytes(spec, df.columns))


def in_order(df: DataFrame) -> DataFrame:
    """Add the column ``arrival``, whose numbers ascend in the order of the rows of ``df``.

    If ``df`` has a column ``offset`` or ``arrival``, return ``df`` unchanged.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if "offset" in df.columns or "arrival" in df.columns:
        return df
    return df.withColumn("arrival", F.monotonically_increasing_id())


def shard_column(key: Column, serde: Serde[Any], partitions: int, *, tail: int = 0) -> Column:
    """Return a column with the shard that the murmur2 hash of each serialised key selects.

    The shard of a null key is 0. If the keys are binary, their last ``tail`` bytes are not hashed.
    """
    from pyspark.sql.pandas.functions import arrow_udf

    from kstore_core.spark.columns.shard_ids import ShardOfKey

    shards = ShardOfKey(serde, partitions, tail)
    udf = arrow_udf(shards.__call__, "int")  # type: ignore[call-overload]
    return cast("Column", udf(key))

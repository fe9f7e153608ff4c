"""Looking at DataFrames before anything runs: their columns, and the one that says the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from kstore_core.serdes import Serde

__all__ = [
    "by_shard",
    "check_columns",
    "check_log",
    "headers_type",
    "log_columns",
    "shard_column",
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
}


def spark_type(arrow: pa.DataType) -> DataType:
    """The Spark type of an Arrow type."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(arrow, prefer_timestamp_ntz=False)


def spark_schema(arrow: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for field in arrow:
        schema.add(field.name, spark_type(field.type))
    return schema


def headers_type() -> DataType:
    """The Spark type of a column of headers."""
    from kstore_core import arrow

    return spark_type(arrow.headers_type())


def check_log(df: DataFrame, spec: StoreSpec) -> None:
    """Refuse a DataFrame that is not a changelog of ``spec``, naming every fault.

    Raises
    ------
    SpecError
        Columns are missing, unknown, twice there, or of another type.
    UnsupportedError
        It is a stream.
    """
    if df.isStreaming:
        raise UnsupportedError(
            "write_store takes a batch DataFrame; this one is a stream, which stream_into takes"
        )
    check_columns(df.schema, spec)


def check_columns(schema: StructType, spec: StoreSpec) -> None:
    """Refuse columns that are not those of a changelog of ``spec``, naming every fault.

    Raises
    ------
    SpecError
        Columns are missing, unknown, twice there, or of another type.
    """
    types = {
        "key": ("binary", spark_type(spec.key.arrow_type).simpleString()),
        "value": ("binary", spark_type(spec.value.arrow_type).simpleString()),
        **_PLAIN_TYPES,
    }
    wanted = ["key", "value", "timestamp"] + (["headers"] if spec.format.headers else [])
    names = [field.name for field in schema.fields]
    faults = [f"{name!r} is missing" for name in wanted if name not in names]
    faults += [f"{name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in types:
            faults.append(f"{field.name!r} is unknown")
        elif kind not in types[field.name]:
            allowed = " or ".join(dict.fromkeys(types[field.name]))
            faults.append(f"{field.name!r} is {kind}, not {allowed}")
    if faults:
        hint = ""
        if "'headers' is missing" in faults:
            hint = (
                f". The format {spec.format.name!r} keeps headers: read Kafka with the option "
                "includeHeaders=true, or add a column of empty ones"
            )
        raise SpecError(
            f"the DataFrame is not a changelog for the store {spec.name!r}: {'; '.join(faults)}. "
            "Its columns are those of Spark's Kafka source: key, value, timestamp, and optionally "
            f"headers, topic, partition, offset{hint}"
        )


def log_columns(df: DataFrame, spec: StoreSpec, *, by_key: bool, partitions: int) -> DataFrame:
    """What the shards are built of: ``shard`` first, times in ms, an order of arrival."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    names = df.columns
    timestamp = F.col("timestamp")
    if df.schema["timestamp"].dataType.simpleString() == "timestamp":
        timestamp = F.unix_millis(timestamp)
    if by_key:
        shard = shard_column(F.col("key"), spec.key, partitions)
    else:
        shard = F.col("partition").cast("int")
    chosen = [shard.alias("shard"), F.col("key"), F.col("value"), timestamp.alias("timestamp")]
    if spec.format.headers:
        chosen.append(F.col("headers"))
    if "offset" in names:
        chosen += [F.col(name) for name in ("topic", "partition", "offset") if name in names]
    else:
        chosen.append(F.monotonically_increasing_id().alias("arrival"))
    return df.select(*chosen)


def shard_column(key: Column, serde: Serde[Any], partitions: int) -> Column:
    """The shard of each row by murmur2 of its serialised key; 0 for a null key."""
    from pyspark.sql.pandas.functions import arrow_udf

    from kstore_core.spark.partitioning import ShardOfKey

    udf = arrow_udf(ShardOfKey(serde, partitions).__call__, "int")  # type: ignore[call-overload]
    return cast("Column", udf(key))


def by_shard(df: DataFrame, partitions: int, shard: str) -> DataFrame:
    """Each shard's rows in the Spark partition of its number."""
    return df.repartitionById(partitions, shard)

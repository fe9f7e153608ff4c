"""with_partition_time: partition time in the headers of rows, for the next stage (KIP-472)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kstore_core import serdes, stores
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.plan import check_unique, plan
from kstore_core.spark.shards.frames import check_columns, headers_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["with_partition_time"]

_STORE = "partition-time"
_REMOVED = "removed by keep"


def with_partition_time(
    df: DataFrame,
    *,
    root: str | os.PathLike[str],
    keep: Column | str | None = None,
    timestamp: str = "timestamp",
    headers: str = "headers",
    partitions: int | None = None,
    engine: str = "lmdb",
) -> DataFrame:
    """Add partition time to each row, as its header ``partition-time``.

    The value is the greatest ``timestamp`` of the row's partition up to the row, removed rows
    included, over all micro-batches and restarts: 8 bytes, big-endian, as in KIP-472. The next
    stage honours it with ``map_state(…, partition_time="headers")`` or
    ``open_state(…, partition_time=True)``: records are late by the time of the whole partition,
    not of the rows that reach the stage.

    Rows that this stage removes are removed here, with ``keep``. The last row before removed ones
    has the header a second time, with the time that the partition had reached after them. So
    stream time downstream is that of the whole partition at once, not only from the next row on.

    Parameters
    ----------
    df : DataFrame
        Rows with a column ``partition`` (int), and optionally ``topic`` and ``offset``, as a stream
        of Kafka has them. The rows of a partition are ordered by offset, else by arrival.
    root : path
        A directory that all machines see, for the times of the partitions; as of ``map_state``.
    keep : Column or str, optional
        A condition; rows for which it is false or null are removed.
    timestamp : str
        The column of a row's time: timestamp, or long milliseconds.
    headers : str
        The column of headers; added if it is missing. Earlier headers of that name are replaced.
    partitions : int, optional
        The number of tasks, each with some of the partitions; by default that of the root, or
        ``spark.sql.shuffle.partitions``.
    engine : str
        The storage engine.

    Returns
    -------
    DataFrame
        The columns of ``df``, and ``headers``.

    Raises
    ------
    SpecError
        A column is missing or of another type.
    StateError, UnsupportedError
        As of ``map_state``.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructField, StructType

    from kstore_core.spark.partition_time.tasks import PartitionTimes

    _check_columns(df, timestamp, headers)
    if headers not in df.columns:
        df = df.withColumn(headers, F.lit(None).cast(headers_type()))
    schema = StructType(
        [
            StructField(headers, headers_type()) if field.name == headers else field
            for field in df.schema.fields
        ]
    )
    condition = F.expr(keep) if isinstance(keep, str) else keep
    removed = F.lit(False) if condition is None else F.coalesce(~condition, F.lit(True))
    columns = df.columns

    def times(given: pa.Schema) -> PartitionTimes:
        return PartitionTimes(
            timestamp, headers, "topic" in columns, "offset" in columns, _REMOVED, given
        )

    def shard(partition: Column, shards: int) -> Column:
        return F.pmod(partition, F.lit(shards)).cast("int")

    return plan(
        df.withColumn(_REMOVED, removed),
        times,
        schema,
        stores.key_value(_STORE, key=serdes.UTF8, value=serdes.INT64),
        ("partition", shard),
        root=root,
        engine=engine,
        partitions=partitions,
        partition_by="partition",
    )


def _check_columns(df: DataFrame, timestamp: str, headers: str) -> None:
    check_unique(df)
    names = df.columns
    allowed = {
        "partition": ("int", "bigint"),
        timestamp: ("timestamp", "bigint"),
        "topic": ("string",),
        "offset": ("bigint", "int"),
        headers: (headers_type().simpleString(),),
    }
    wanted = {"partition", timestamp, *names}
    check_columns(df, {name: kinds for name, kinds in allowed.items() if name in wanted})
    if _REMOVED in names:
        raise SpecError(f"the DataFrame has a column {_REMOVED!r}, which is taken here; rename it")

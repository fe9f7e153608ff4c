"""`with_partition_time`: adds partition time to the headers of rows, as in KIP-472."""

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
    """Add partition time to each row, as the header ``partition-time``.

    A row's partition time is the greatest ``timestamp`` in the row's partition up to this row. It
    includes the rows of earlier micro-batches, also those before a restart, and the rows that
    ``keep`` removes. The header's value is 8 bytes, big-endian, as in KIP-472.

    The next stage uses the header with ``map_state(…, partition_time="headers")`` or
    ``open_state(…, partition_time=True)``. In that stage, whether a record is late then depends on
    all rows of the partition, and not only on the rows that reach the stage.

    ``keep`` filters rows. If removed rows follow a row and raise the partition's time, the row has
    the header twice. The second value is the partition's time after the removed rows. So the stream
    time of the next stage includes the removed rows at once, and not only when the next row
    arrives.

    Parameters
    ----------
    df : DataFrame
        A DataFrame with a column ``partition`` (int), and optionally the columns ``topic`` and
        ``offset``, as in a stream from Kafka. The rows of a partition are sorted by ``offset``, or
        have the order of their arrival if there is no such column.
    root : path
        The directory that stores the times of the partitions. All machines must see it; see
        ``map_state``.
    keep : Column or str, optional
        A condition. A row is removed if the condition is false or null. No row is removed if None.
    timestamp : str
        The name of the column of a row's time. The column must have timestamps, or longs in
        milliseconds.
    headers : str
        The name of the column of headers, which is added if it is missing. Headers
        ``partition-time`` that a row already has are replaced.
    partitions : int, optional
        The number of tasks, among which the partitions are divided. By default an existing root
        keeps its number, and a new root gets ``spark.sql.shuffle.partitions`` tasks.
    engine : str
        The name of the storage engine.

    Returns
    -------
    DataFrame
        The remaining rows, with the columns of ``df`` and the column of headers.

    Raises
    ------
    SpecError
        A column is missing or has a wrong type.
    StateError, UnsupportedError
        See ``map_state``.
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
        raise SpecError(f"the column name {_REMOVED!r} is reserved; rename the column")

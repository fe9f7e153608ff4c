"""The function `with_partition_time`, which adds partition time to the headers of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kstore_core import serdes, stores
from kstore_core.errors import SpecError
from kstore_core.spark.map_state.plan import check_unique, plan
from kstore_core.spark.map_state.sharding import PARTITION_TIMES
from kstore_core.spark.shards.frames import check_columns, headers_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["with_partition_time"]

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
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Add partition time to each row, as the header ``partition-time``.

    The partition time of a row is the greatest time so far in the row's partition, including the
    time of the row itself. The rows of earlier micro-batches count, even after a restart. The rows
    that ``keep`` removes count too. The value of the header is the time in ms as 8 big-endian
    bytes, as in KIP-472.

    The next stage of the pipeline uses the header if the stage calls
    ``map_state(…, partition_time="headers")`` or ``open_state(…, partition_time=True)``. That stage
    then decides from all rows of the partition whether a record is late, not only from the rows
    that reach the stage.

    ``keep`` may remove rows that raise the partition time. The last remaining row before these rows
    then gets a second header ``partition-time``, with the partition time after the removed rows. So
    the stream time of the next stage does not wait for the next remaining row.

    Parameters
    ----------
    df : DataFrame
        A DataFrame with a column ``partition`` of type int or long, such as a stream from Kafka.
        If ``df`` has a column ``topic``, partitions of different topics are different partitions.
        If ``df`` has a column ``offset``, the rows of a partition are sorted by this column.
        Without this column, the rows have the order of their arrival.
    root : path or address
        The directory that stores the partition times, as in :func:`map_state`.
    keep : Column or str, optional
        A condition on the columns of ``df``. A row is removed if the condition is false or null. If
        None, no row is removed.
    timestamp : str
        The name of the column of times. The type of the column must be timestamp, or long with ms
        since the epoch.
    headers : str
        The name of the column of headers. If ``df`` lacks this column, the column is added. If a
        row already has headers ``partition-time``, they are replaced.
    partitions : int, optional
        The number of tasks, among which the partitions are divided. If None, an existing root keeps
        its number of tasks, and a new root gets ``spark.sql.shuffle.partitions`` tasks.
    engine : str
        The name of the storage engine that stores the partition times.
    storage_options : mapping, optional
        Options of an object store; see docs/spark-roots.md.

    Returns
    -------
    DataFrame
        The rows that were not removed, with the columns of ``df`` and the column of headers.

    Raises
    ------
    SpecError
        A column is missing or has a wrong type.
    StateError, UnsupportedError
        The root or the engine cannot be used; see :func:`map_state`.
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
        stores.key_value(PARTITION_TIMES, key=serdes.UTF8, value=serdes.INT64),
        ("partition", shard),
        root=root,
        engine=engine,
        partitions=partitions,
        partition_by="partition",
        storage_options=storage_options,
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
        raise SpecError(
            f"the DataFrame has a column {_REMOVED!r}, but with_partition_time adds a column with "
            "this name; rename the column"
        )

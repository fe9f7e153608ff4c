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

    The value is the greatest ``timestamp`` of the row's partition up to the row: 8 bytes,
    big-endian, as in KIP-472. It includes removed rows, over all micro-batches and restarts. The
    next stage uses it with ``map_state(…, partition_time="headers")`` or
    ``open_state(…, partition_time=True)``. There the time of the whole partition decides whether a
    record is late, not only the rows that reach the stage.

    ``keep`` removes the rows that this stage filters out. The last row before removed rows has the
    header twice. The second value is the time of the partition after the removed rows. So stream
    time downstream includes the removed rows at once, and not only from the next row on.

    Parameters
    ----------
    df : DataFrame
        Rows with a column ``partition`` (int), and optionally ``topic`` and ``offset``, as in a
        stream from Kafka. The rows of a partition are sorted by offset, else by arrival.
    root : path
        A directory that all machines see, for the times of the partitions; see ``map_state``.
    keep : Column or str, optional
        A condition; a row is removed if the condition is false or null.
    timestamp : str
        The column of a row's time: timestamp, or long milliseconds.
    headers : str
        The column of headers; added if missing. Earlier headers ``partition-time`` are replaced.
    partitions : int, optional
        The number of tasks, each with some of the partitions; by default the number of the root,
        or ``spark.sql.shuffle.partitions``.
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
        As in ``map_state``.
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

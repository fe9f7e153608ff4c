"""The routing of rows to the Spark partitions of their shards."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["by_shard", "check_partitions", "placed_by_key", "route_to_shards", "split_shard"]

Rows = TypeVar("Rows", "pa.Table", "pa.RecordBatch")
PartitionBy = Literal["key", "partition"]
_MOST = 2**31 - 1
"""The greatest number of partitions in Kafka and Spark."""


def by_shard(
    df: DataFrame, spec: StoreSpec, partitions: int, *, partition_by: PartitionBy | None = None
) -> DataFrame:
    """Move all records of a shard to one Spark partition.

    Call this before ``df.write.format("kstore")``, because a Python data source cannot tell Spark
    how to distribute rows. It is not needed before :func:`write_store`.

    Parameters
    ----------
    df : DataFrame
        A changelog with the columns that :func:`write_store` accepts.
    spec : StoreSpec
        The spec of the store.
    partitions : int
        The number of shards of the store.
    partition_by : {"partition", "key"}, optional
        The selection of shards, as in :func:`write_store`.

    Returns
    -------
    DataFrame
        The rows of ``df``. The rows of each shard are in the Spark partition with the number of
        the shard. If ``df`` has no column ``offset``, a column ``arrival`` is added, which numbers
        the rows in their order.

    Raises
    ------
    SpecError
        ``df`` does not have the columns of a changelog of ``spec``, or ``partitions`` is less
        than 1.
    UnsupportedError
        ``df`` is a stream.
    """
    from kstore_core.spark.shards import frames

    check_partitions(partitions)
    frames.check_log(df, spec)
    by_key = placed_by_key(df.columns, partition_by)
    shard = frames.shard_of_log(df, spec, by_key=by_key, partitions=partitions)
    routed = route_to_shards(frames.in_order(df), shard, partitions)
    return routed.drop(routed.columns[-1])


def route_to_shards(df: DataFrame, shard: Column, partitions: int) -> DataFrame:
    """Move each row to the Spark partition of its shard, and add the shard as the last column.

    Tasks must remove that column with :func:`split_shard`.
    """
    name = "shard"
    while name in map(str.lower, df.columns):
        name += "_"
    return df.withColumn(name, shard).repartitionById(partitions, name)


def split_shard(rows: Rows) -> tuple[Rows, Any]:
    """Remove the column that :func:`route_to_shards` added; return the rows and that column."""
    last = rows.num_columns - 1
    return rows.remove_column(last), rows.column(last)


def check_partitions(partitions: int | None, what: str = "store") -> int:
    """Check the number of partitions of ``what``, and return the number."""
    if type(partitions) is not int or not 1 <= partitions <= _MOST:
        raise SpecError(
            f"partitions={partitions!r} is not the number of partitions of a {what}; pass an int "
            f"from 1 to {_MOST}"
        )
    return partitions


def placed_by_key(names: Collection[str], partition_by: str | None) -> bool:
    """Return True if murmur2 of the keys selects shards, or False if ``partition`` does.

    ``names`` are the columns of the DataFrame. Raise a SpecError if ``partition_by`` is not one of
    its choices, or if it is ``"partition"`` and there is no such column.
    """
    there = "partition" in names
    if partition_by is None:
        return not there
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if partition_by == "partition" and not there:
        raise SpecError(
            "partition_by='partition' needs a column 'partition', which the DataFrame does not "
            "have; add the column, or pass partition_by='key'"
        )
    return partition_by == "key"

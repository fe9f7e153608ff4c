"""Routing of rows to the Spark partitions of their shards."""

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
_MOST = 2**31 - 1  # as Kafka and Spark count them


def by_shard(
    df: DataFrame, spec: StoreSpec, partitions: int, *, partition_by: PartitionBy | None = None
) -> DataFrame:
    """Bring the records of each shard together, as ``df.write.format("kstore")`` requires.

    A data source cannot request a distribution of rows from Spark. :func:`write_store` needs no
    such step.

    Parameters
    ----------
    df : DataFrame
        A changelog, as for :func:`write_store`.
    spec : StoreSpec
        The store's description.
    partitions : int
        The store's number of shards.
    partition_by : {"partition", "key"}, optional
        As for :func:`write_store`.

    Returns
    -------
    DataFrame
        The same rows. The rows of a shard are in the Spark partition of the shard's number. If
        there is no column ``offset``, a column ``arrival`` is added, which records their order.

    Raises
    ------
    SpecError
        The columns do not fit, or ``partitions`` is less than 1.
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

    Tasks remove that column with :func:`split_shard`.
    """
    name = "shard"
    while name in map(str.lower, df.columns):
        name += "_"
    return df.withColumn(name, shard).repartitionById(partitions, name)


def split_shard(rows: Rows) -> tuple[Rows, Any]:
    """Split the rows of a task from the column that :func:`route_to_shards` added."""
    last = rows.num_columns - 1
    return rows.remove_column(last), rows.column(last)


def check_partitions(partitions: int | None, what: str = "store") -> int:
    """Return the number of shards after a check."""
    if type(partitions) is not int or not 1 <= partitions <= _MOST:
        raise SpecError(
            f"partitions={partitions!r}; a {what} has at least 1 and at most {_MOST}, as an int"
        )
    return partitions


def placed_by_key(names: Collection[str], partition_by: str | None) -> bool:
    """Return True if murmur2 of the keys chooses shards, False if the column ``partition`` does.

    A SpecError if ``partition_by`` is not a choice, or the column is missing.
    """
    there = "partition" in names
    if partition_by is None:
        return not there
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if partition_by == "partition" and not there:
        raise SpecError(
            "partition_by='partition', and the DataFrame has no column 'partition'; add it, or "
            "pass partition_by='key'"
        )
    return partition_by == "key"

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
    """Bring the records of each shard together, as ``df.write.format("kstore")`` needs them.

    A data source cannot ask Spark for a distribution. :func:`write_store` needs no such step.

    Parameters
    ----------
    df : DataFrame
        A changelog, as :func:`write_store` takes it.
    spec : StoreSpec
        Of the store that it is for.
    partitions : int
        The store's number of shards.
    partition_by : {"partition", "key"}, optional
        As for :func:`write_store`.

    Returns
    -------
    DataFrame
        The same rows, those of a shard in the Spark partition of its number. Without a column
        ``offset`` there is one more, ``arrival``, by which they keep their order.

    Raises
    ------
    SpecError
        The columns do not fit, or there is less than one partition.
    UnsupportedError
        It is a stream.
    """
    from kstore_core.spark.shards import frames

    check_partitions(partitions)
    frames.check_log(df, spec)
    by_key = placed_by_key(df.columns, partition_by)
    shard = frames.shard_of_log(df, spec, by_key=by_key, partitions=partitions)
    routed = route_to_shards(frames.in_order(df), shard, partitions)
    return routed.drop(routed.columns[-1])


def route_to_shards(df: DataFrame, shard: Column, partitions: int) -> DataFrame:
    """Bring each row to the Spark partition of its shard, which becomes a further, last column.

    Tasks take that column off with :func:`split_shard`.
    """
    name = "shard"
    while name in map(str.lower, df.columns):
        name += "_"
    return df.withColumn(name, shard).repartitionById(partitions, name)


def split_shard(rows: Rows) -> tuple[Rows, Any]:
    """The rows of a task without the column of :func:`route_to_shards`, and that column."""
    last = rows.num_columns - 1
    return rows.remove_column(last), rows.column(last)


def check_partitions(partitions: int | None, what: str = "store") -> int:
    """Return the number of shards, checked."""
    if type(partitions) is not int or not 1 <= partitions <= _MOST:
        raise SpecError(
            f"partitions={partitions!r}; a {what} has at least one, at most {_MOST}, and their "
            "number is an int"
        )
    return partitions


def placed_by_key(names: Collection[str], partition_by: str | None) -> bool:
    """Return True if murmur2 of the keys chooses shards, False if the column ``partition`` does.

    Raises
    ------
    SpecError
        ``partition_by`` is not a choice, or names a column that is missing.
    """
    there = "partition" in names
    if partition_by is None:
        return not there
    check_choice("partition_by", partition_by, get_args(PartitionBy))
    if partition_by == "partition" and not there:
        raise SpecError("partition_by='partition', and the DataFrame has no column 'partition'")
    return partition_by == "key"

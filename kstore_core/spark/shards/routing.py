"""Functions that move rows to the Spark partitions of their shards."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from kstore_core.checks import check_choice, check_partitions
from kstore_core.errors import SpecError
from kstore_core.spec import StoreSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["by_shard", "placed_by_key", "route_to_shards", "split_shard"]

Rows = TypeVar("Rows", "pa.Table", "pa.RecordBatch")
PartitionBy = Literal["key", "partition"]


def by_shard(
    df: DataFrame, spec: StoreSpec, partitions: int, *, partition_by: PartitionBy | None = None
) -> DataFrame:
    """Move all records of a shard to one Spark partition.

    Call ``by_shard`` before ``df.write.format("kstore")``, because a Python data source cannot tell
    Spark how to distribute rows. :func:`write_store` does not need ``by_shard``.

    Parameters
    ----------
    df : DataFrame
        A changelog with the columns that :func:`write_store` accepts.
    spec : StoreSpec
        The spec of the store.
    partitions : int
        The number of shards of the store.
    partition_by : {"partition", "key"}, optional
        The way to choose the shard of a record; see :func:`write_store`.

    Returns
    -------
    DataFrame
        The rows of ``df``. The rows of each shard are in the Spark partition whose number is the
        number of the shard. If ``df`` has neither a column ``offset`` nor ``arrival``, the result
        has an additional column ``arrival``, whose numbers ascend in the order of the rows.

    Raises
    ------
    SpecError
        ``df`` does not have the columns of a changelog for ``spec``, or ``partitions`` is less
        than 1.
    UnsupportedError
        ``df`` is a streaming DataFrame.
    """
    from kstore_core.spark.shards import frames

    check_partitions(partitions)
    frames.check_batch(df)
    frames.check_log_columns(df.schema, spec)
    by_key = placed_by_key(df.columns, partition_by)
    shard = frames.shard_of_log(df, spec, by_key=by_key, partitions=partitions)
    routed = route_to_shards(frames.in_order(df), shard, partitions)
    return routed.drop(routed.columns[-1])


def route_to_shards(df: DataFrame, shard: Column, partitions: int) -> DataFrame:
    """Move each row to the Spark partition of its shard, and append a column with the shard.

    The tasks that read the result must remove this column with :func:`split_shard`.
    """
    name = "shard"
    while name in map(str.lower, df.columns):
        name += "_"
    return df.withColumn(name, shard).repartitionById(partitions, name)


def split_shard(rows: Rows) -> tuple[Rows, Any]:
    """Return rows without the column that :func:`route_to_shards` added, and this column."""
    last = rows.num_columns - 1
    return rows.remove_column(last), rows.column(last)


def placed_by_key(names: Collection[str], partition_by: str | None) -> bool:
    """Return True if the murmur2 hash of the key selects a record's shard.

    Return False if the number in the column ``partition`` selects the shard. ``names`` are the
    columns of the DataFrame. Raise a SpecError if ``partition_by`` is an unknown choice. Raise a
    SpecError if it is ``"partition"``, but ``names`` has no column ``partition``.
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

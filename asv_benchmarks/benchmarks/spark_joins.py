"""Joins of rows with the version that was valid at their time, by kstore and by Spark's methods.

Each join returns the number, value, timestamp and headers of every row, so the results can be
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .spark_data import SHARDS, Data

COLUMNS = ("number", "value", "timestamp", "headers")
EVERYWHERE: dict[str, int] = {}
"""The arguments with which every worker keeps the whole store in memory, which are the defaults."""
APART = {"broadcast_bytes": 0}
"""The arguments with which rows are routed to their keys' shards, as for a large store."""


def pass_through(data: Data) -> Any:
    """Pass rows through a Python worker as Arrow batches, without a join."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return data.rows.mapInArrow(same, data.rows.schema)


def pass_through_widened(data: Data) -> Any:
    """Pass rows through a Python worker that adds the same join columns to every row."""
    schema = _beside_version(data, data.rows.columns).add("valid_to", "long")
    return data.rows.mapInArrow(_widening(), schema)


def temporal_join(data: Data, root: Path | None = None, **more: Any) -> Any:
    """Join with kstore, on the store that was written before, and select four columns."""
    return temporal_join_as_it_comes(data, root, **more).select(*COLUMNS)


def temporal_join_as_it_comes(data: Data, root: Path | None = None, **more: Any) -> Any:
    """Join with kstore, and return all columns in the form in which Python returns them."""
    from kstore_core.spark import temporal_join

    place = data.root if root is None else root
    return temporal_join(data.rows, place, key="who", timestamp="at", prefix="", **more)


def asof_join(data: Data) -> Any:
    """Join with Spark's native ASOF JOIN, which is off by default."""
    data.spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    return _sql(
        data,
        "SELECT r.number, l.value, l.timestamp, l.headers FROM rows r LEFT ASOF JOIN log l "
        "MATCH_CONDITION (r.at >= l.timestamp) ON r.who = l.key",
    )


def lead_and_range(data: Data) -> Any:
    """Compute the end of each version with lead(), and join on the key and the range of time."""
    return _sql(
        data,
        "WITH versions AS (SELECT *, lead(timestamp) OVER (PARTITION BY key ORDER BY timestamp) "
        "AS until FROM log) SELECT r.number, v.value, v.timestamp, v.headers FROM rows r "
        "LEFT JOIN versions v ON r.who = v.key AND r.at >= v.timestamp "
        "AND (v.until IS NULL OR r.at < v.until)",
    )


def union_and_window(data: Data) -> Any:
    """Sort the log and the rows together, and take the last version before each row."""
    return _sql(
        data,
        "WITH both AS (SELECT key, timestamp AS at, 0 AS side, CAST(NULL AS bigint) AS number, "
        "named_struct('value', value, 'timestamp', timestamp, 'headers', headers) AS version "
        "FROM log UNION ALL SELECT who, at, 1, number, NULL FROM rows), "
        "found AS (SELECT number, side, last(version, true) OVER (PARTITION BY key ORDER BY at, "
        "side ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS version FROM both) "
        "SELECT number, version.value, version.timestamp, version.headers FROM found "
        "WHERE side = 1",
    )


def cogroup(data: Data) -> Any:
    """Group the log and the rows by a hash of the key, and use pandas' merge_asof on each pair."""
    from pyspark.sql import functions as F  # noqa: N812

    log = data.log.withColumn("group", F.pmod(F.hash("key"), F.lit(SHARDS)))
    rows = data.rows.withColumn("group", F.pmod(F.hash("who"), F.lit(SHARDS)))
    schema = _beside_version(data, ["number"])
    pairs = rows.groupBy("group").cogroup(log.groupBy("group"))
    return pairs.applyInArrow(_merging(), schema)


OTHERS: dict[str, Callable[[Data], Any]] = {
    "native `ASOF JOIN`": asof_join,
    "`lead()` and a range join": lead_and_range,
    "union and a window": union_and_window,
    "cogroup and pandas' `merge_asof`": cogroup,
}
"""Spark's own ways."""


def _beside_version(data: Data, names: list[str]) -> Any:
    """Return the schema of some columns of the rows, followed by the columns of a version."""
    schema = data.rows.select(*names).schema
    for name in COLUMNS[1:]:
        schema = schema.add(data.log.schema[name])
    return schema


def _widening() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of `pass_through_widened`. See :func:`_merging` for the reason."""

    def widened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add constant columns with the types of a version's columns."""
        import pyarrow as pa

        headers = [("trace-id", b"0123456789abcdef"), ("n", None), ("s", b"ecb")]
        pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        version = ["x" * 100, 1, pa.scalar(headers, pairs), 2]
        columns: list[pa.Array] = []
        for batch in batches:
            count = batch.num_rows
            if not columns or len(columns[0]) < count:
                columns = [pa.repeat(part, count) for part in version]
            added = [column.slice(0, count) for column in columns]
            names = [*batch.schema.names, "value", "timestamp", "headers", "valid_to"]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=names)

    return widened


def _sql(data: Data, query: str) -> Any:
    """Run a query on the views ``log`` and ``rows``."""
    data.log.createOrReplaceTempView("log")
    data.rows.createOrReplaceTempView("rows")
    return data.spark.sql(query)


def _merging() -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the function of `cogroup`.

    It is a nested function, so Spark sends its code to workers, which may lack this module.
    """

    def merged(rows: pa.Table, log: pa.Table) -> pa.Table:
        """Join the rows with the log. Only keys, times and positions are converted to pandas."""
        import numpy as np
        import pandas as pd

        left = pd.DataFrame({"key": rows["who"].to_pandas(), "at": rows["at"].to_numpy()})
        left["row"] = np.arange(len(left))
        right = pd.DataFrame({"key": log["key"].to_pandas(), "at": log["timestamp"].to_numpy()})
        right["version"] = np.arange(len(right))
        found = pd.merge_asof(left.sort_values("at"), right.sort_values("at"), on="at", by="key")
        places = pa.array(found["version"], from_pandas=True).cast(pa.int64())
        taken = {name: pc.take(log[name], places) for name in COLUMNS[1:]}
        return pa.table({"number": pc.take(rows["number"], pa.array(found["row"])), **taken})

    return merged

"""Measurements of writes, reads, joins, streams and state on Spark, for docs/performance.md.

Each measurement compares kstore with Spark's own methods. Run ``python -m
asv_benchmarks.performance`` in the repository to write the tables of the page. This takes several
minutes and needs a machine that does no other work. With ``KSTORE_BENCHMARKS=small`` the script
uses little data and only prints the tables. It fails if two methods return different results.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from asv_benchmarks.benchmarks import spark_joins, spark_streams, spark_writes
from asv_benchmarks.benchmarks.spark_data import SHARDS, VERSIONS, Data, checksum, run, seconds
from asv_benchmarks.pages import machine, placed

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


@dataclass(frozen=True)
class Sizes:
    """The numbers of keys, rows, rounds and batches of a run."""

    keys: int = 100_000
    rows: int = 1_000_000
    rounds: int = 5
    batch: int = 5_000
    batches: int = 10
    large_batch: int = 25_000
    large_batches: int = 4


SMALL = Sizes(1_000, 5_000, 1, 200, 3, 400, 3)


class DifferentResultsError(Exception):
    """Two methods that must return the same rows returned different rows."""


def measure(spark: Any, sizes: Sizes) -> str:
    """Run all measurements, and return their tables in Markdown."""
    data = Data.make(spark, sizes.keys, sizes.rows)
    try:
        tables = [
            _writes(data, sizes),
            _appends(data, sizes),
            _reads(data, sizes),
            _joins(data, sizes),
            _stream_joins(data, sizes),
            _states(data, sizes),
        ]
    finally:
        data.close()
    return "\n\n".join(tables)


def least(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least time of each job in seconds.

    The runs of the jobs alternate, so that other work on the machine slows all jobs equally.
    """
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            best[name] = min(best[name], seconds(job))
    return best


def check_same(found: Mapping[str, tuple[int, int]]) -> str:
    """Return a text with the number of rows and the checksum, which must be equal for all methods.

    Raises
    ------
    DifferentResultsError
        Two methods have different numbers of rows or different checksums.
    """
    if len(set(found.values())) != 1:
        told = "; ".join(f"{name}: {rows} rows, {sum_:#x}" for name, (rows, sum_) in found.items())
        raise DifferentResultsError(f"results differ: {told}")
    rows, whole = next(iter(found.values()))
    return f"{rows:,} rows with the checksum `{whole & (1 << 64) - 1:016x}`"


def _writes(data: Data, sizes: Sizes) -> str:
    from kstore_core.spark import read_store

    records, own = sizes.keys * VERSIONS, "Spark alone: the same shards, sorted, as Parquet"
    jobs: dict[str, Callable[[], object]] = {
        f"**kstore** `write_store`, {SHARDS} shards": data.write_store,
        own: lambda: spark_writes.sorted_parquet(data),
        "no write: the records are brought to their shards": lambda: run(
            spark_writes.routed(data.log)
        ),
    }
    took = least(jobs, sizes.rounds)
    sorted_log = data.spark.read.parquet(str(spark_writes.sorted_parquet(data)))
    history = read_store(data.spark, data.root, history=True, headers=True, timestamps="millis")
    agreed = check_same(
        {
            "the store": checksum(history.select(*spark_writes.COLUMNS)),
            "the Parquet files": checksum(sorted_log.select(*spark_writes.COLUMNS)),
        }
    )
    lines = [
        f"| {name} | {s:.2f} | {records / s / 1000:,.0f} | {took[own] / s:.2f} |"
        for name, s in took.items()
    ]
    return (
        f"### Writing {records:,} records\n\n"
        "| job | seconds | thousand records per second | times as fast as Parquet |\n"
        "|---|---:|---:|---:|\n" + "\n".join(lines) + f"\n\nBoth writes gave {agreed}."
    )


def _appends(data: Data, sizes: Sizes) -> str:
    root, few = data.copy_of_root("appended"), spark_writes.few_records(data)
    empty = "no append: the records are read and shuffled"
    jobs: dict[str, Callable[[], object]] = {
        "**kstore** `write_store` in the mode `append`": lambda: spark_writes.append(root, few),
        "no append: Python tasks get the records and discard them": lambda: (
            spark_writes.empty_python_job(few)
        ),
        empty: lambda: spark_writes.empty_job(few),
    }
    took = least(jobs, sizes.rounds)
    lines = [f"| {name} | {s:.2f} | {s - took[empty]:.2f} |" for name, s in took.items()]
    return (
        f"### Appending {spark_writes.FEW} records to {sizes.keys * VERSIONS:,}\n\n"
        "| job | seconds | seconds beyond the read and the shuffle |\n|---|---:|---:|\n"
        + "\n".join(lines)
    )


def _reads(data: Data, sizes: Sizes) -> str:
    from kstore_core.spark import read_store

    def read(**more: Any) -> Callable[[], object]:
        return lambda: run(read_store(data.spark, data.root, history=True, **more))

    records = sizes.keys * VERSIONS
    jobs = {
        "read the history, all columns": read(),
        "read the history: key, value, timestamp": read(columns=["key", "value", "timestamp"]),
        "scan the log as Parquet": lambda: run(data.log),
    }
    took = least(jobs, sizes.rounds)
    lines = [f"| {name} | {s:.2f} | {records / s / 1000:,.0f} |" for name, s in took.items()]
    head = "| job | seconds | thousand records per second |\n|---|---:|---:|\n"
    return f"### Reading {records:,} records\n\n{head}" + "\n".join(lines)


def _joins(data: Data, sizes: Sizes) -> str:
    whole, apart = spark_joins.EVERYWHERE, spark_joins.APART
    ways: dict[str, Callable[[], Any]] = {
        "**kstore**, warm, each worker has the whole store, four columns": lambda: (
            spark_joins.temporal_join(data, **whole)
        ),
        "**kstore**, warm, rows are shuffled to the shards, four columns": lambda: (
            spark_joins.temporal_join(data, **apart)
        ),
        **{name: (lambda way=way: way(data)) for name, way in spark_joins.OTHERS.items()},
    }
    agreed = check_same({name: checksum(way()) for name, way in ways.items()})
    ways["**kstore**, warm, each worker has the whole store, all columns"] = lambda: (
        spark_joins.temporal_join_as_it_comes(data, **whole)
    )
    ways["no join: rows pass through Python (`mapInArrow`)"] = lambda: spark_joins.pass_through(
        data
    )
    ways["no join: Python adds constant columns of the same types as those of the join"] = lambda: (
        spark_joins.pass_through_widened(data)
    )
    jobs = {name: (lambda way=way: run(way())) for name, way in ways.items()}
    took = least(jobs, sizes.rounds)
    cold = {
        "**kstore**, cold, each worker has the whole store, four columns": whole,
        "**kstore**, cold, rows are shuffled to the shards, four columns": apart,
    }
    for number, (name, options) in enumerate(cold.items()):
        took[name] = float("inf")
        for round_ in range(sizes.rounds):
            root = data.copy_of_root(f"cold-{number}-{round_}")
            join = spark_joins.temporal_join(data, root, **options)
            took[name] = min(took[name], seconds(partial(run, join)))
            # Without its files, the next round needs no more memory for the page cache.
            shutil.rmtree(root)
    asof = took[next(iter(spark_joins.OTHERS))]
    lines = [
        f"| {name} | {s:.2f} | {sizes.rows / s / 1000:,.0f} | {asof / s:.2f} |"
        for name, s in sorted(took.items(), key=lambda pair: pair[1])
    ]
    return (
        f"### {sizes.rows:,} rows joined as of their time with {sizes.keys:,} keys x {VERSIONS} "
        "versions\n\n"
        "| method | seconds | thousand rows per second | times as fast as `ASOF JOIN` |\n"
        "|---|---:|---:|---:|\n" + "\n".join(lines) + f"\n\nAll joins gave {agreed}."
    )


def _stream_joins(data: Data, sizes: Sizes) -> str:
    stream = spark_streams.Stream(data, "joined", [sizes.batch] * sizes.batches)
    joined = spark_streams.joined_as_of_time(stream)
    took = {
        "no join: rows are read and discarded": stream.milliseconds(stream.rows),
        "**kstore** `temporal_join`": stream.milliseconds(joined),
        "native `ASOF JOIN` with a static table": stream.milliseconds_each(
            lambda rows: run(spark_streams.asof_joined(data, rows))
        ),
    }
    agreed = check_same(
        {
            "temporal_join of the stream": stream.result(joined),
            "ASOF JOIN of all its rows": checksum(spark_streams.asof_joined(data, stream.batch())),
        }
    )
    least_ms = next(iter(took.values()))
    lines = [f"| {name} | {ms:,.0f} | {ms / least_ms:.2f} |" for name, ms in took.items()]
    return (
        f"### A stream, joined in batches of {sizes.batch:,} rows\n\n"
        "| method | ms per batch | time divided by that of no join |\n|---|---:|---:|\n"
        + "\n".join(lines)
        + f"\n\nBoth joins gave {agreed}."
    )


def _states(data: Data, sizes: Sizes) -> str:
    ways = {
        "**kstore** `map_state`": spark_streams.totals_by_map_state,
        "`transformWithState` in Python": spark_streams.totals_by_transform_with_state,
    }
    small = spark_streams.Stream(data, "small", [sizes.batch] * sizes.large_batches)
    large = spark_streams.Stream(data, "large", [sizes.large_batch] * sizes.large_batches)
    lines, results = [], {}
    for name, way in ways.items():
        each = [stream.milliseconds(way(stream)) for stream in (small, large)]
        slope = (each[1] - each[0]) / (sizes.large_batch - sizes.batch) * 1000
        lines.append(f"| {name} | {each[0]:,.0f} | {each[1]:,.0f} | {slope:.0f} |")
        results[name] = small.result(way(small))
    agreed = check_same(results)
    return (
        "### A running total by key, kept as state\n\n"
        f"| method | ms per batch of {sizes.batch:,} rows | ms per batch of {sizes.large_batch:,} "
        "rows | µs per additional row |\n|---|---:|---:|---:|\n"
        + "\n".join(lines)
        + f"\n\nBoth methods gave {agreed}."
    )


def about(spark: Any) -> str:
    """Return a sentence with the versions and the machine of the run."""
    return (
        f"The run used Spark {spark.version} with the master `local[2]`, Python "
        f"{platform.python_version()}, {machine()}."
    )


def main() -> None:
    """Run the measurements, print the tables, and write the page unless the run is small."""
    from kstore_core.spark import local_session

    is_small = os.environ.get("KSTORE_BENCHMARKS") == "small"
    spark = local_session(
        "performance", shuffle_partitions=SHARDS, driver_memory="1g" if is_small else "6g"
    )
    try:
        found = f"{about(spark)}\n\n{measure(spark, SMALL if is_small else Sizes())}"
    finally:
        spark.stop()
    if not is_small:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    sys.stdout.write(found + "\n")


if __name__ == "__main__":
    main()

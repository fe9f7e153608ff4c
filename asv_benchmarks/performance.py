"""Joins, streams and state on Spark, beside Spark's own ways: docs/performance.md.

``python -m asv_benchmarks.performance``, from the repository, writes the page; it takes minutes on
a machine that has nothing else to do. With ``KSTORE_BENCHMARKS=small`` it does the same on little
data and prints what it found. It fails where two ways that should agree give different results.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from asv_benchmarks.benchmarks import spark_joins, spark_streams
from asv_benchmarks.benchmarks.spark_data import SHARDS, VERSIONS, Data, checksum, run, seconds

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True)
class Sizes:
    """How much is measured, and how often."""

    keys: int = 100_000
    rows: int = 1_000_000
    rounds: int = 5
    batch: int = 5_000
    batches: int = 10
    large_batch: int = 25_000
    large_batches: int = 4


SMALL = Sizes(1_000, 5_000, 1, 200, 3, 400, 3)


class DifferentResultsError(Exception):
    """Two ways that should give the same do not."""


def measure(spark: Any, sizes: Sizes) -> str:
    """All tables, in Markdown."""
    data = Data.make(spark, sizes.keys, sizes.rows)
    try:
        wrote = min(seconds(data.write_store) for _ in range(sizes.rounds))
        tables = [
            _bulk(data, sizes, wrote),
            _joins(data, sizes),
            _stream_joins(data, sizes),
            _states(data, sizes),
        ]
    finally:
        data.close()
    return "\n\n".join(tables)


def least(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best seconds of each job, in turns, so that a slow moment is shared by all."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            best[name] = min(best[name], seconds(job))
    return best


def check_same(found: Mapping[str, tuple[int, int]]) -> str:
    """What all agree on.

    Raises
    ------
    DifferentResultsError
        They do not.
    """
    if len(set(found.values())) != 1:
        told = "; ".join(f"{name}: {rows} rows, {sum_:#x}" for name, (rows, sum_) in found.items())
        raise DifferentResultsError(f"results differ: {told}")
    rows, whole = next(iter(found.values()))
    return f"{rows:,} rows with the checksum `{whole & (1 << 64) - 1:016x}`"


def _bulk(data: Data, sizes: Sizes, wrote: float) -> str:
    from kstore_core.spark import read_store

    def read(**more: Any) -> Callable[[], object]:
        return lambda: run(read_store(data.spark, data.root, history=True, **more))

    records = sizes.keys * VERSIONS
    jobs = {
        "read the history, all columns": read(),
        "read the history: key, value, timestamp": read(columns=["key", "value", "timestamp"]),
        "scan the log as Parquet": lambda: run(data.log),
    }
    took = {f"write the store, {SHARDS} shards": wrote, **least(jobs, sizes.rounds)}
    lines = [f"| {name} | {s:.2f} | {records / s / 1000:,.0f} |" for name, s in took.items()]
    head = "| whole jobs | seconds | k records/s |\n|---|---:|---:|\n"
    return f"### Writing and reading {records:,} records\n\n{head}" + "\n".join(lines)


def _joins(data: Data, sizes: Sizes) -> str:
    whole, apart = spark_joins.EVERYWHERE, spark_joins.APART
    ways: dict[str, Callable[[], Any]] = {
        "**kstore**, warm, the store whole in each worker": lambda: spark_joins.temporal_join(
            data, **whole
        ),
        "**kstore**, warm, rows brought to their shards": lambda: spark_joins.temporal_join(
            data, **apart
        ),
        **{name: (lambda way=way: way(data)) for name, way in spark_joins.OTHERS.items()},
    }
    agreed = check_same({name: checksum(way()) for name, way in ways.items()})
    ways["**kstore**, warm, all columns as Python gives them"] = lambda: (
        spark_joins.temporal_join_as_it_comes(data, **whole)
    )
    ways["rows through Python and back (`mapInArrow`), nothing joined"] = lambda: (
        spark_joins.pass_through(data)
    )
    ways["the same, as wide as all columns of the join"] = lambda: spark_joins.pass_through_widened(
        data
    )
    jobs = {name: (lambda way=way: run(way())) for name, way in ways.items()}
    took = least(jobs, sizes.rounds)
    took["**kstore**, cold: shards read first, rows brought to them"] = min(
        seconds(partial(run, spark_joins.temporal_join(data, root, **apart)))
        for root in (data.copy_of_root(f"cold-{n}") for n in range(sizes.rounds))
    )
    asof = took[next(iter(spark_joins.OTHERS))]
    lines = [
        f"| {name} | {s:.2f} | {sizes.rows / s / 1000:,.0f} | {asof / s:.2f} |"
        for name, s in sorted(took.items(), key=lambda pair: pair[1])
    ]
    return (
        f"### {sizes.rows:,} rows joined as of their time with {sizes.keys:,} keys x {VERSIONS} "
        "versions\n\n| way | seconds | k rows/s | times as fast as `ASOF JOIN` |\n"
        "|---|---:|---:|---:|\n" + "\n".join(lines) + f"\n\nAll joins gave {agreed}."
    )


def _stream_joins(data: Data, sizes: Sizes) -> str:
    stream = spark_streams.Stream(data, "joined", [sizes.batch] * sizes.batches)
    joined = spark_streams.joined_as_of_time(stream)
    took = {
        "no-op: rows read and thrown away": stream.milliseconds(stream.rows),
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
    floor = next(iter(took.values()))
    lines = [f"| {name} | {ms:,.0f} | {ms / floor:.2f} |" for name, ms in took.items()]
    return (
        f"### A stream, joined in batches of {sizes.batch:,} rows\n\n"
        "| way | ms per batch | times a no-op batch |\n|---|---:|---:|\n"
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
        f"| way | ms per {sizes.batch:,} rows | ms per {sizes.large_batch:,} rows | "
        "µs for each further row |\n|---|---:|---:|---:|\n"
        + "\n".join(lines)
        + f"\n\nBoth gave {agreed}."
    )


def about(spark: Any) -> str:
    """What it was measured with."""
    return (
        f"Spark {spark.version}, `local[2]`, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors, {platform.system()} on {platform.machine()}."
    )


def placed(page: str, found: str) -> str:
    """The page with what was found in the place of what was found before."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{found}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Measure, and write the page or print."""
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

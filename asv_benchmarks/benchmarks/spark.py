"""Spark jobs of a small size, which run in one session, and the inner loops of their tasks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from .sizes import sized

KEYS, ROWS, BATCH = sized(10_000), sized(100_000), sized(5_000)
ROUNDS = 3 if KEYS == 10_000 else 1  # a small run only shows that the jobs work
BATCHES = 4


class Jobs:
    """Jobs on a log of ten versions per key: a write to 4 shards, reads, joins, and streams.

    One process with one session measures all jobs once. Each benchmark then returns one figure.
    """

    timeout = 600
    unit = "s"

    def setup_cache(self) -> dict[str, float]:
        return measured()

    setup_cache.timeout = 600  # type: ignore[attr-defined]

    def track_write_store(self, found: dict[str, float]) -> float:
        return found["write_store"]

    def track_write_sorted_parquet(self, found: dict[str, float]) -> float:
        return found["write_sorted_parquet"]

    def track_append_few(self, found: dict[str, float]) -> float:
        return found["append_few"]

    def track_empty_job(self, found: dict[str, float]) -> float:
        return found["empty_job"]

    def track_read_history(self, found: dict[str, float]) -> float:
        return found["read_history"]

    def track_read_three_columns(self, found: dict[str, float]) -> float:
        return found["read_three_columns"]

    def track_read_one_key(self, found: dict[str, float]) -> float:
        return found["read_one_key"]

    def track_temporal_join_cold(self, found: dict[str, float]) -> float:
        return found["temporal_join_cold"]

    def track_temporal_join_warm(self, found: dict[str, float]) -> float:
        return found["temporal_join_warm"]

    def track_temporal_join_shuffled(self, found: dict[str, float]) -> float:
        return found["temporal_join_shuffled"]

    def track_asof_join_of_spark(self, found: dict[str, float]) -> float:
        return found["asof_join"]

    def track_stream_join_batch(self, found: dict[str, float]) -> float:
        return found["stream_join_batch"]

    def track_map_state_batch(self, found: dict[str, float]) -> float:
        return found["map_state_batch"]


class Parts:
    """Work of tasks: a restore, shards of keys, and lookups of 10,000 rows in 100,000 versions."""

    def setup(self) -> None:
        import numpy as np
        import pyarrow as pa

        from kstore_core.spark.join.lookup import VersionLookup
        from kstore_core.spark.join.version_index import VersionIndex

        from .spark_data import HOUR_MS, log_table, rows_table

        log = log_table(KEYS)
        columns = {name: log[name].combine_chunks() for name in log.column_names}
        self.keys = columns["key"].cast(pa.binary())
        self.values = columns["value"].cast(pa.binary())
        self.times, self.headers = columns["timestamp"], columns["headers"]
        begins = self.times.to_numpy()
        latest = np.arange(len(begins)) >= len(begins) - KEYS
        ends = pa.array(begins + HOUR_MS, mask=latest)
        self.lookup = VersionLookup([VersionIndex(self.keys, self.times, ends, [-1])])
        rows = rows_table(ROWS // 10, KEYS)
        self.rows = rows.to_batches()
        self.row_keys = rows["who"].combine_chunks().cast(pa.binary())
        self.row_times = rows["at"].combine_chunks()

    def time_place_keys(self) -> None:
        from kstore_core.spark.columns.shard_ids import shards_of

        shards_of(self.keys, 4)

    def time_find(self) -> None:
        self.lookup.find(self.row_keys, self.row_times)

    def time_pack_rows(self) -> None:
        from kstore_core import serdes
        from kstore_core.spark.shards.packing import Packing, unpacked

        packed = Packing(4, serdes.UTF8, 1).pack(iter(self.rows))
        assert sum(rows.num_rows for _, rows in unpacked(packed)) == len(self.row_keys)

    def time_restore_rocksdb(self) -> None:
        from kstore_core import open_state
        from kstore_core.restore import restore

        from .spark_data import SPEC

        with (
            tempfile.TemporaryDirectory() as scratch,
            open_state(Path(scratch, "0_0"), engine="rocksdb") as state,
        ):
            restore(state.open(SPEC), self.keys, self.values, self.times, self.headers)


def measured() -> dict[str, float]:
    """Return the seconds of every job: the least of several rounds, or a stream's median batch."""
    from kstore_core.spark import local_session

    from .spark_data import SHARDS, Data

    spark = local_session("asv", shuffle_partitions=SHARDS)
    data = Data.make(spark, KEYS, ROWS)
    try:
        return {**_bulk(data), **_joins(data), **_streams(data)}
    finally:
        data.close()
        spark.stop()


def _bulk(data: Any) -> dict[str, float]:
    from kstore_core.spark import read_store

    from .spark_data import run, seconds
    from .spark_writes import append, empty_job, few_records, sorted_parquet

    def read(**more: Any) -> float:
        df = read_store(data.spark, data.root, history=True, **more)
        return min(seconds(lambda: run(df)) for _ in range(ROUNDS))

    wrote = {
        "write_store": min(seconds(data.write_store) for _ in range(2)),
        "write_sorted_parquet": min(seconds(lambda: sorted_parquet(data)) for _ in range(2)),
    }
    root, few = data.copy_of_root("appended"), few_records(data)
    return {
        **wrote,
        "append_few": min(seconds(lambda: append(root, few)) for _ in range(ROUNDS)),
        "empty_job": min(seconds(lambda: empty_job(few)) for _ in range(ROUNDS)),
        "read_history": read(),
        "read_three_columns": read(columns=["key", "value", "timestamp"]),
        "read_one_key": read(key="key-000000007"),
    }


def _joins(data: Any) -> dict[str, float]:
    from .spark_data import run, seconds
    from .spark_joins import APART, EVERYWHERE, asof_join, temporal_join

    def best(df: Any) -> float:
        return min(seconds(lambda: run(df)) for _ in range(ROUNDS))

    roots = [data.copy_of_root(f"cold-{number}") for number in range(ROUNDS)]
    cold = (temporal_join(data, root, **APART) for root in roots)
    return {
        "temporal_join_cold": min(seconds(lambda df=df: run(df)) for df in cold),
        "temporal_join_warm": best(temporal_join(data, **EVERYWHERE)),
        "temporal_join_shuffled": best(temporal_join(data, **APART)),
        "asof_join": best(asof_join(data)),
    }


def _streams(data: Any) -> dict[str, float]:
    from .spark_streams import Stream, joined_as_of_time, totals_by_map_state

    stream = Stream(data, "stream", [BATCH] * BATCHES)
    return {
        "stream_join_batch": stream.milliseconds(joined_as_of_time(stream)) / 1000,
        "map_state_batch": stream.milliseconds(totals_by_map_state(stream)) / 1000,
    }

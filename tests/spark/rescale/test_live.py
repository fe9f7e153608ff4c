"""States of `map_state` that are rescaled between two runs of their query."""

from __future__ import annotations

import shlex
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.codec import partition
from kstore_core.errors import EngineLockedError, SpecError, StateError, UnsupportedError
from kstore_core.spark import map_state, rescale
from kstore_core.spark.map_state.sharding import PARTITION_TIMES
from tests.spark.map_state.task_runs import TOTALS, amounts, epoch, make_task, running_total
from tests.spark.rescale.live_states import AMOUNTS, Streamed, check_that_it_goes_on, run, totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_runs_go_on_where_they_were(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    wanted: Counter[str] = Counter()
    for shards in (4, 6, 3, 1):
        if wanted:
            done = rescale(tmp_path, partitions=shards)
            assert (done.store, done.partitions, done.version) == ("totals", shards, None)
            assert (done.rows, totals(tmp_path)) == (40, wanted)
        wanted.update(dict(AMOUNTS))
        given = {"partitions": shards} if shards != 3 else {}
        assert run(spark, tmp_path, AMOUNTS, engine=engine, **given) == wanted
    with pytest.raises(SpecError, match="partitions is stored as 1 and given as 4"):
        run(spark, tmp_path, AMOUNTS, engine=engine, partitions=4)


def test_a_result_from_before_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame(AMOUNTS, "key string, amount long")
    schema = "key string, total long"
    result = map_state(df, running_total, TOTALS, root=tmp_path, schema=schema, partitions=2)
    result.collect()
    rescale(tmp_path, partitions=4)
    with pytest.raises(Exception, match="call map_state again"):
        result.collect()
    assert totals(tmp_path) == dict(AMOUNTS)


@pytest.mark.parametrize("shape", ["versioned", "window", "session"])
def test_stores_of_other_shapes(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    spec = {
        "versioned": stores.versioned_key_value_with_headers("s", 10**6, key=serdes.UTF8),
        "window": stores.timestamped_window_with_headers("s", 10**6, 10, key=serdes.UTF8),
        "session": stores.session_with_headers("s", 10**6, key=serdes.UTF8),
    }[shape]

    def put(key: str, rows: Any, store: Any) -> Any:
        from kstore_core.types import Windowed

        for row in rows:
            value, headers = b"%d" % row.amount, [("h", key.encode())]
            if shape == "versioned":
                store.put(key, value, timestamp=row.amount, headers=headers)
            elif shape == "window":
                start = row.amount * 10
                store.put(key, value, window_start=start, timestamp=start, headers=headers)
            else:
                store.put(Windowed(key, row.amount, row.amount + 5), value, headers=headers)
        yield (sum(1 for _ in _all(store)),)

    def _all(store: Any) -> Any:
        if shape == "versioned":
            return (v for key in names for v in store.history(key))
        return store.all() if shape == "window" else store.fetch_range(None, None)

    names = [f"k{number}" for number in range(10)]
    rows = [(f"k{number % 10}", number) for number in range(60)]

    def count(amount: int, **given: Any) -> int:
        df = spark.createDataFrame(
            [*rows, ("k1", amount)] if amount < 60 else [("k1", amount)], "key string, amount long"
        )
        given = {"root": tmp_path, "schema": "n int", **given}
        return max(row.n for row in map_state(df, put, spec, **given).collect())

    count(59, partitions=4)
    assert rescale(tmp_path, partitions=1).before == 4
    assert count(61) == 62  # with (k1, 59) and (k1, 61)


def test_a_stream_goes_on_with_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "state"

    def follow(message: str) -> None:
        assert totals(root) == {key: amount * 3 for key, amount in AMOUNTS}
        command = shlex.split(message.partition("with: ")[2].partition(". Run the query")[0])
        assert command[0] == "cp"
        subprocess.run(command, check=True)

    streamed = Streamed(spark, tmp_path, root=root)
    check_that_it_goes_on(streamed, lambda number: rescale(root, partitions=number), follow)


def test_a_query_that_runs_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A task that holds a shard keeps the state; one that waits for it sees that it is gone."""
    task = make_task(tmp_path, lock_timeout_s=0)
    for shard in range(4):
        task.apply(shard, epoch(1), amounts([(k, 1) for k, _ in AMOUNTS if _shard(k) == shard]))
    with open_state(task.state.layout.shard(2), engine="lmdb") as held:
        held.open(TOTALS)
        with pytest.raises(EngineLockedError, match="0_2 is open for writing"):
            rescale(tmp_path, partitions=2)
    assert sorted(path.name for path in task.state.layout.path.iterdir()) == [
        *(f"0_{number}" for number in range(4)),
        "map_state.json",
        "query",
    ]
    rescale(tmp_path, partitions=2)
    with pytest.raises(StateError, match="after map_state was called, call map_state again"):
        task.apply(0, epoch(2), amounts([("k0", 1)]))
    assert set(totals(tmp_path).values()) == {1}


def test_a_task_that_waited_for_a_lock_looks_again(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    task.apply(0, epoch(1), amounts([("a", 1)]))
    seen, layout = [], task.state.layout

    def rescaled_after_the_first_look(state: Any) -> None:
        seen.append(1)
        if len(seen) == 2:
            raise StateError("the state was rescaled")

    with (
        mock.patch.object(type(task.state), "check_seen", rescaled_after_the_first_look),
        pytest.raises(StateError, match="rescaled"),
    ):
        task.apply(0, epoch(2), amounts([("a", 5)]))
    with open_state(layout.shard(0), engine="lmdb", read_only=True) as state:
        assert state.open(TOTALS).get("a") == 1


def test_rows_by_their_partition_are_placed_by_key_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The topic keeps its partitions, so the column would lead to other shards than the keys."""
    rows = [(key, amount, _shard(key)) for key, amount in AMOUNTS]

    def count(by: str) -> Any:
        df = spark.createDataFrame(rows, "key string, amount long, partition int")
        out = map_state(
            df,
            running_total,
            TOTALS,
            root=tmp_path,
            schema="key string, total long",
            partitions=4 if by == "partition" else None,
            partition_by=by,  # type: ignore[arg-type]
        )
        return {row.key: row.total for row in out.collect()}

    count("partition")
    rescale(tmp_path, partitions=8)
    with pytest.raises(SpecError, match="partition_by is stored as 'key' and given as 'partition'"):
        count("partition")
    assert count("key") == {key: amount * 2 for key, amount in AMOUNTS}


def test_keys_of_another_partitioner_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    task = make_task(tmp_path)
    task.apply(0, epoch(1), amounts([(k, 1) for k, _ in AMOUNTS if _shard(k) == 1]))
    with pytest.raises(SpecError, match="is in shard 0, but Kafka's murmur2"):
        rescale(tmp_path, partitions=2)
    assert not (task.state.layout.path / "rescaled-1").exists()


def test_states_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    task = make_task(tmp_path)
    task.apply(_shard("a"), epoch(1), amounts([("a", 1)]))
    with pytest.raises(SpecError, match="already has 4 shards; pass another number"):
        rescale(tmp_path, partitions=4)
    other = stores.timestamped_key_value("totals", key=serdes.UTF8, value=serdes.INT64)
    shard = next(number for number in range(4) if number != _shard("a"))
    with open_state(task.state.layout.shard(shard), engine="lmdb") as state:
        store = state.open(other)
        store.put(next(k for k, _ in AMOUNTS if _shard(k) == shard), 1, timestamp=1)
        state.commit()
    with pytest.raises(StateError, match="was written with another spec than shard"):
        rescale(tmp_path, partitions=2)
    with (
        mock.patch("kstore_core.spark.rescale.live.is_connect", return_value=True),
        pytest.raises(UnsupportedError, match="with a session of Spark Connect"),
    ):
        rescale(tmp_path, partitions=2)
    make_task(tmp_path, spec=stores.key_value(PARTITION_TIMES))
    with pytest.raises(UnsupportedError, match="is the state of with_partition_time"):
        rescale(tmp_path, partitions=2, store=PARTITION_TIMES)
    make_task(tmp_path, spec=stores.key_value("b", key=serdes.UTF8, value=serdes.INT64))
    with pytest.raises(
        SpecError, match=f"several states of map_state: b, {PARTITION_TIMES}, totals\\."
    ):
        rescale(tmp_path, partitions=2)
    assert rescale(tmp_path, partitions=2, store="b").rows == 0  # nothing was ever written


def _shard(key: str) -> int:
    return partition(key.encode(), 4)

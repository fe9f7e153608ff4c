"""Shards that are built in runs: the same store as from one run, in bounded memory."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import open_state, stores
from kstore_core.arrow import headers_type
from kstore_core.codec import session_key, window_key
from kstore_core.errors import SpecError, StorageFullError
from kstore_core.partition_time import HEADER
from kstore_core.spark.root.manifest import Shard
from kstore_core.spark.root.root import Root
from kstore_core.spark.shards.log import ShardLog
from kstore_core.spark.shards.spool import LogSpool, check_run_bytes, in_tables
from kstore_core.spark.write.job import WriteJob
from kstore_core.spec import StoreSpec
from tests.support.memory import STATUS, peak_bytes
from tests.support.places import ROOT

SHARDS = 2
RUN_BYTES = 4096
SPECS: dict[str, Callable[[], StoreSpec]] = {
    "plain": lambda: stores.key_value("s"),
    "headers": lambda: stores.timestamped_key_value_with_headers("s"),
    "versioned": lambda: stores.versioned_key_value("s", 400, 50),
    "versioned_headers": lambda: stores.versioned_key_value_with_headers("s", 400, 50),
    "window": lambda: stores.timestamped_window("s", 600, 50, segment_interval_ms=300),
    "duplicates": lambda: stores.window("s", 600, 50, retain_duplicates=True),
    "session": lambda: stores.session_with_headers("s", 600, segment_interval_ms=300),
}
ORDERS = {
    "offsets": ("topic", "partition", "offset"),
    "one source": ("offset",),
    "arrival": ("arrival",),
    "none": (),
}


def log_of(spec: StoreSpec, order: str, seed: int, first: int = 0) -> pa.Table:
    """600 records with tombstones, from four source partitions, in no order if they have one."""
    dice = random.Random(seed)
    rows = []
    for number in range(first, first + 600):
        key, time = f"k{dice.randrange(40)}".encode(), number + dice.randrange(-300, 300)
        time = max(time, 0)
        start = time // 50 * 50
        if spec.shape == "window":
            key = window_key(key, start, number if spec.retain_duplicates else 0)
        elif spec.shape == "session":
            key = session_key(key, start, start + dice.randrange(3) * 50)
        headers = [{"key": "n", "value": b"%d" % number}, {"key": "none", "value": None}]
        if dice.random() < 0.1:
            told = time + dice.randrange(200)
            headers.append({"key": HEADER, "value": told.to_bytes(8, "big")})
        rows.append(
            {
                "key": key,
                "value": None if dice.random() < 0.2 else b"v%d" % number,
                "timestamp": time,
                "headers": headers,
                "topic": dice.choice("ab"),
                "partition": dice.randrange(2),
                "offset": number,
                "arrival": number,
            }
        )
    if ORDERS[order]:
        dice.shuffle(rows)
    schema = {"key": pa.binary(), "value": pa.binary(), "timestamp": pa.int64()}
    schema |= {"headers": headers_type(), "topic": pa.string(), "partition": pa.int32()}
    schema |= {"offset": pa.int64(), "arrival": pa.int64()}
    table = pa.Table.from_pylist(rows, pa.schema(list(schema.items())))
    return table.select(["key", "value", "timestamp", "headers", *ORDERS[order]])


def written(root: Root, spec: StoreSpec, log: pa.Table, **options: Any) -> tuple[Shard, ...]:
    job = WriteJob.plan(
        root, spec, root.newest(), engine="rocksdb", partitions=SHARDS, mode="append"
    )
    job.begin()
    batches = log.to_batches(max_chunksize=37)
    return job.publish(job.writer(**options).write_each(1, batches, by_key=True)).shards


def contents(root: Root, spec: StoreSpec) -> list[Any]:
    found: list[Any] = []
    for shard in root.load().shards:
        with root.local_shard(shard) as path, open_state(path, read_only=True) as state:
            store = state.open(spec)
            if spec.shape == "versioned":
                for number in range(40):
                    key, horizon = f"k{number}".encode(), max(store.clock.horizon, 0)
                    found += [(key, str(v)) for v in store.history(key, horizon)]
            elif spec.shape == "session":
                found += map(str, store.find_sessions_between(0, 10**9))
            else:
                found += map(str, store.all())
    return found


EACH_PAIR = [
    *(("offsets", name) for name in SPECS),
    *itertools.product(list(ORDERS)[1:], ("headers", "versioned_headers", "session")),
]
"""Orders and kinds: the order of a log matters most where a store keeps versions or headers."""


@pytest.mark.parametrize(("order", "name"), EACH_PAIR)
def test_runs_make_the_store_of_one_run(tmp_path: Path, name: str, order: str) -> None:
    spec = SPECS[name]()
    roots = [Root.at(tmp_path / "whole"), Root.at(tmp_path / "runs")]
    timed = spec.shape != "key_value" and order != "arrival"
    for seed, first in ((1, 0), (2, 400)):  # The second log repeats a part of the first.
        log = log_of(spec, order, seed, first)
        whole, runs = (
            written(root, spec, log, partition_time=timed, **options)
            for root, options in zip(roots, ({}, {"run_bytes": RUN_BYTES}), strict=True)
        )
        for one, other in zip(whole, runs, strict=True):
            assert (other.offsets, other.stream_time) == (one.offsets, one.stream_time)
            assert (other.records, other.replayed) == (one.records, one.replayed)
            assert other.replayed > 0 or order != "offsets" or seed == 1
            if spec.shape == "versioned":
                assert (other.late, other.late > 0) == (one.late, True)
        found, wanted = (contents(root, spec) for root in reversed(roots))
        assert found == wanted
        assert len(found) > 20


@pytest.mark.parametrize("order", ORDERS)
def test_runs_have_the_order_of_the_whole_log(tmp_path: Path, order: str) -> None:
    spec = SPECS["headers"]()
    table = log_of(spec, order, 3)
    whole = ShardLog.of(table, spec)
    with LogSpool(tmp_path, spec, RUN_BYTES) as spool:
        for rows in in_tables(table.to_batches(max_chunksize=11), RUN_BYTES):
            spool.add(ShardLog.of(rows, spec))
        assert spool.is_on_disk
        runs = list(spool.runs())
    assert len(runs) > 5
    assert max(run.keys.nbytes + run.values.nbytes for run in runs) < RUN_BYTES
    for name in ("keys", "users", "values", "timestamps", "headers", "offsets", "topics"):
        column = getattr(whole, name)
        if column is None:
            assert all(getattr(run, name) is None for run in runs)
        else:
            assert pa.concat_arrays([getattr(run, name) for run in runs]).equals(column)


def test_records_of_one_run_need_no_file(tmp_path: Path) -> None:
    spec = SPECS["plain"]()
    log = ShardLog.of(log_of(spec, "offsets", 4), spec)
    with LogSpool(tmp_path / "files", spec, RUN_BYTES) as spool:
        spool.add(log)
        assert not spool.is_on_disk
        assert list(spool.runs()) == [log]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    spec = SPECS["plain"]()
    log = ShardLog.of(log_of(spec, "offsets", 4), spec)
    (tmp_path / "0.arrow").symlink_to("/dev/full")
    with LogSpool(tmp_path, spec, RUN_BYTES) as spool:
        spool.add(log)
        with pytest.raises(StorageFullError, match=r"no space left for .*0\.arrow.*TMPDIR"):
            spool.add(log)


def test_a_record_that_cannot_be_read_in_a_later_run_publishes_nothing(tmp_path: Path) -> None:
    from dataclasses import replace

    from kstore_core import serdes

    spec = replace(SPECS["plain"](), value=serdes.UTF8)
    log = log_of(spec, "one source", 5)
    bad = pa.table({"key": [b"k1"], "value": [b"\xff"], "timestamp": [1], "offset": [10**6]})
    log = pa.concat_tables([log.select(["key", "value", "timestamp", "offset"]), bad])
    root = Root.at(tmp_path / "root")
    with pytest.raises(SpecError, match=r"the column 'value' contains b'\\xff' of the key b'k1'"):
        written(root, spec, log, run_bytes=RUN_BYTES)
    assert root.newest() is None


@pytest.mark.parametrize("value", [0, -1, 2**31, True, 1.5, "8"])
def test_a_size_that_no_run_can_have_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"run_bytes=.* is not the size of a run.*from 1 to"):
        check_run_bytes(value)
    assert check_run_bytes(2**31 - 1) == 2**31 - 1


BATCH = 250
"""The rows of each batch of a shard with large values."""


def batches_of(shape: str, count: int) -> Iterator[pa.RecordBatch]:
    """The batches of a shard with large values, made one by one, far from their order."""
    spec = SPECS[shape]()
    for number in range(count):
        keys = [b"%08d" % ((number * BATCH + at) * 7 % 100_003) for at in range(BATCH)]
        if spec.shape == "session":
            keys = [session_key(key, number, number) for key in keys]
        values = [None if at % 10 == 0 else b"%04d" % at * 200 for at in range(BATCH)]
        yield pa.record_batch(
            {
                "key": keys,
                "value": values,
                "timestamp": pa.array([number] * BATCH, pa.int64()),
                "headers": pa.array([[]] * BATCH, headers_type()),
                "arrival": pa.array([number * 7 % count * BATCH + at for at in range(BATCH)]),
            }
        )


def built_in(shape: str, directory: str, count: int, run_bytes: int) -> int:
    """Build a shard, and return the most bytes that this process had for itself."""
    spec, root = SPECS[shape](), Root.at(directory)
    job = WriteJob.plan(root, spec, None, engine="rocksdb", partitions=1, mode="append")
    job.begin()
    with peak_bytes() as peak:
        writer = job.writer(run_bytes=run_bytes)
        [shard] = writer.write_each(1, batches_of(shape, count), by_key=True)
    assert shard.records == BATCH * count
    return peak()


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")
@pytest.mark.parametrize("shape", ["headers", "versioned_headers", "session"])
def test_the_memory_of_a_task_does_not_grow_with_its_shard(tmp_path: Path, shape: str) -> None:
    def measured(name: str, count: int, run_bytes: int) -> int:
        code = (
            "from tests.spark.shards.test_spool import built_in\n"
            f"print(built_in({shape!r}, {str(tmp_path / name)!r}, {count}, {run_bytes}))"
        )
        command = [sys.executable, "-c", code]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        return int(ran.stdout)

    run, log = 8 << 20, 400 * BATCH * 730
    small, large = measured("small", 200, run), measured("large", 800, run)
    # The larger shard has 110 MB more. The threads of RocksDB make the peaks differ by up to 45 MB.
    assert large - small < 8 * run, (small, large)
    if shape == "headers":  # a run that holds all rows would be noticed
        assert measured("whole", 400, 1 << 30) - small > log

"""Streams into window and session stores of every kind: what one write of the whole log makes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core.spark import spec_json
from kstore_core.spark.root.root import Root
from kstore_core.spec import StoreSpec
from tests.spark.columns.shapes import SHAPES, SHARDS, columns_of, log_of, written
from tests.spark.stream.shard_epochs import Streamed, content
from tests.spark.support.inboxes import received, sink_of
from tests.spark.support.streams import slices_of

RETENTION, INTERVAL, EPOCHS, SIZE = 300, 200, 3, 20


def shape(name: str, **changes: Any) -> StoreSpec:
    """A store of this kind that forgets within the log."""
    few = {"retention_ms": RETENTION, "segment_interval_ms": INTERVAL}
    return dataclasses.replace(SHAPES[name](), **few, **changes)


def in_epochs(spec: StoreSpec) -> list[list[dict[str, Any]]]:
    """A log whose times rise, in epochs."""
    log = log_of(spec, 5)[: EPOCHS * SIZE]
    for number, record in enumerate(log):
        for name in ("start", "end", "timestamp"):
            record[name] += number // SIZE * 150
    return slices_of(log, EPOCHS)


def shards_of(root: Path, spec: StoreSpec) -> list[Any]:
    """What each shard of the newest version shows, and its offsets."""
    home = Root.at(root)
    found = []
    for shard in home.load().shards:
        assert shard.path is not None
        with home.local_shard(shard) as path:
            found.append(content(path, spec, "rocksdb"))
    return found


def one_write(root: Path, spec: StoreSpec, *, typed: bool) -> list[Any]:
    """What a batch of the whole log makes."""
    log = [record for records in in_epochs(spec) for record in records]
    written(Root.at(root), spec, columns_of(spec, log, typed=typed))
    return shards_of(root, spec)


STORES = {
    **{name: shape(name) for name in ("headers", "duplicates", "session_headers")},
    "duplicates by time": shape("duplicates", time_ordered=True, indexed=True),
    "sessions by time": shape("session", time_ordered=True, indexed=False),
}


def output_of(epochs: list[pa.Table], spec: StoreSpec) -> dict[tuple[Any, ...], Any]:
    """The value of each key, window or session, and number in an output."""
    names = ["key", f"{spec.shape}_start", f"{spec.shape}_end"]
    names += ["sequence"] if spec.retain_duplicates else []
    table = pa.concat_tables(epochs)
    for name in names[1:3]:
        at = table.column_names.index(name)
        millis = table[name].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        table = table.set_column(at, name, millis)
    columns = zip(*(table[name].to_pylist() for name in names), strict=True)
    found = dict(zip(columns, table["value"].to_pylist(), strict=True))
    assert len(found) == table.num_rows
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", STORES)
def test_epochs_that_come_again_are_one_write(tmp_path: Path, name: str) -> None:
    spec = STORES[name]
    streamed = Streamed(tmp_path / "streamed", spec, partitions=SHARDS)
    for number, records in enumerate(in_epochs(spec)):
        rows = columns_of(spec, records, typed=True)
        rows = rows.append_column("shard", rows["partition"])
        first = streamed.epoch(number, rows)
        assert streamed.epoch(number, rows) == first
    assert shards_of(streamed.path, spec) == one_write(tmp_path / "batch", spec, typed=False)
    assert Root.at(streamed.path).load().records == EPOCHS * SIZE
    assert Root.at(streamed.path).versions() == [*range(1, EPOCHS + 1)]


@pytest.mark.parametrize("name", ["headers", "duplicates", "session_headers"])
def test_epochs_of_the_sink_are_one_write(tmp_path: Path, name: str) -> None:
    spec, root = STORES[name], tmp_path / "sink"
    for number, records in enumerate(in_epochs(spec)):
        rows = columns_of(spec, records, typed=True)
        options = {"path": str(root), "spec": spec_json(spec), "partitions": str(SHARDS)}
        for _ in range(2):  # Spark does not know that it was done
            messages = received(root, number, (rows.slice(task * 7, 7) for task in range(3)))
            sink_of(options, rows).commit(messages, number)
    assert shards_of(root, spec) == one_write(tmp_path / "batch", spec, typed=True)
    assert Root.at(root).load().records == EPOCHS * SIZE


@pytest.mark.parametrize("name", ["timestamped", "duplicates", "session"])
def test_the_output_has_each_window_and_session_that_is_named(tmp_path: Path, name: str) -> None:
    spec = SHAPES[name]()
    rows = columns_of(spec, log := log_of(spec, 6), typed=True)
    wanted = {}
    for record in log:
        end = record["start"] + 50 if spec.shape == "window" else record["end"]
        numbers = [record["sequence"]] if spec.retain_duplicates else []
        wanted[record["key"], record["start"], end, *numbers] = record["value"]
    streamed = Streamed(tmp_path, spec, "lmdb", partitions=SHARDS)
    epoch = streamed.epoch(0, rows.append_column("shard", rows["partition"]))
    assert output_of(epoch, spec) == wanted
    assert None in wanted.values()

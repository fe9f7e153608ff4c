"""``format("kstore")`` as a sink: rows in any order of tasks, each epoch once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pytest

from kstore_core import stores
from kstore_core.errors import SpecError, StateError
from kstore_core.spark import spec_json
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.live.lock import locked
from kstore_core.spark.root.root import Root
from kstore_core.spark.stream.shards import EpochTask
from kstore_core.spark.stream.sink import Received
from tests.spark.stream.shard_epochs import QUERY, content
from tests.spark.stream.sink_work import OPTIONS, received, sink
from tests.spark.support import inboxes, logs
from tests.spark.support.streams import (
    AVAILABLE,
    add_epochs,
    epochs_of,
    forget_last_epoch,
    slices_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize("columns", [logs.COLUMNS, ("value", "key", "headers", "timestamp")])
def test_rows_of_any_task_reach_their_shards_in_order(tmp_path: Path, columns: Any) -> None:
    log = logs.make_log(1, 200, logs.SHARDS)
    by_epoch: list[list[logs.Record]] = slices_of(log, 2)
    for name, cut in (("cut", 3), ("whole", 1)):
        root = tmp_path / name
        for epoch, records in enumerate(by_epoch):
            writer = sink(root, columns)
            tasks = [*slices_of(records, cut), []]
            messages = received(root, epoch, tasks, columns)
            writer.commit([*messages, None], epoch)
            again = received(root, epoch, tasks, columns)
            sink(root, columns).commit(again, epoch)  # Spark does not know that it was done
        assert Root.at(root).versions() == [1, 2]
        assert not (root / "live" / "inbox").exists()
    newest = Root.at(tmp_path / "cut").load()
    assert newest.records == 200
    for shard in newest.shards:
        assert shard.path is not None
        name = shard.path.rpartition("/")[2]
        found = [
            content(Root.at(tmp_path / where).path / "live" / name, logs.SPEC, "rocksdb")
            for where in ("cut", "whole")
        ]
        assert found[0] == found[1]
    assert bool(newest.shards[0].offsets) == ("offset" in columns)


@pytest.mark.parametrize("done", range(logs.SHARDS + 1))
def test_a_commit_that_ends_early_is_finished_by_the_next(tmp_path: Path, done: int) -> None:
    log = logs.make_log(1, 90, logs.SHARDS)
    apply, left = EpochTask.apply, done

    def ends(task: EpochTask, *arguments: Any) -> Any:
        nonlocal left
        if not left:
            raise InterruptedError
        left -= 1
        return apply(task, *arguments)

    messages = received(tmp_path, 0, [log], logs.COLUMNS)
    where: Any = (EpochTask, "apply", ends)
    if done == logs.SHARDS:
        where = (Root, "publish", mock.Mock(side_effect=InterruptedError))
    with mock.patch.object(*where), pytest.raises(InterruptedError):
        sink(tmp_path).commit(messages, 0)
    assert Root.at(tmp_path).versions() == []
    sink(tmp_path).commit(messages, 0)
    [shards] = [Root.at(tmp_path).load(number).shards for number in Root.at(tmp_path).versions()]
    for shard in shards:
        mine = [record for record in log if record.partition == shard.shard]
        assert shard.records == len(mine)
        assert shard.offsets[0].offset == mine[-1].offset


def test_a_fault_in_any_row_leaves_all_shards_as_they_were(tmp_path: Path) -> None:
    log = logs.make_log(1, 60, logs.SHARDS)
    sink(tmp_path).commit(received(tmp_path, 0, [log[:30]], logs.COLUMNS), 0)
    last = log[-1]
    faults = {
        "belong to other partitions": logs.Record(
            **{**vars(last), "partition": (last.partition + 1) % logs.SHARDS}
        ),
        "have the partition 9": logs.Record(**{**vars(last), "partition": 9}),
    }
    for text, fault in faults.items():
        messages = received(tmp_path, 1, [log[30:-1], [fault]], logs.COLUMNS)
        with pytest.raises(SpecError, match=text):
            sink(tmp_path).commit(messages, 1)
        sink(tmp_path).abort(messages, 1)
        assert not (tmp_path / "live" / "inbox").exists()
        assert not (tmp_path / "attempts" / f"stream-{QUERY}-1").exists()
    assert Root.at(tmp_path).versions() == [1]
    sink(tmp_path).commit(received(tmp_path, 1, [log[30:]], logs.COLUMNS), 1)
    assert Root.at(tmp_path).load().records == 60


def test_a_sink_without_rows_or_tasks_shows_nothing(tmp_path: Path) -> None:
    sink(tmp_path).commit([], 0)
    sink(tmp_path).abort([None], 0)
    sink(tmp_path).commit(received(tmp_path, 0, [[]], logs.COLUMNS), 0)
    assert Root.at(tmp_path).versions() == []
    sink(tmp_path, publish_every="2").commit(
        received(tmp_path, 0, [logs.make_log(1, 9, 3)], logs.COLUMNS), 0
    )
    assert Root.at(tmp_path).versions() == []
    sink(tmp_path, publish_every="2").commit(received(tmp_path, 1, [[]], logs.COLUMNS), 1)
    assert Root.at(tmp_path).load().records == 9


def test_two_streams_do_not_share_a_root(tmp_path: Path) -> None:
    messages = received(tmp_path, 0, [logs.make_log(1, 9, 3)], logs.COLUMNS)
    with (
        locked(LiveLayout.of(tmp_path)),
        pytest.raises(StateError, match="another stream writes to"),
    ):
        sink(tmp_path).commit(messages, 0)
    sink(tmp_path).commit(messages, 0)
    with pytest.raises(StateError, match=r"but this stream is .* of the checkpoint"):
        sink(tmp_path).commit([Received("another", None)], 0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": ""}, "the path is missing"),
        ({"path": "relative"}, "'relative' is relative"),
        ({"run_bytes": "4096"}, "no option 'run_bytes'"),
        ({"publish_evry": "2"}, "no option 'publish_evry'"),
        ({"publish_every": "0"}, "publish_every='0' is not a number of 1 or more"),
        ({"publish_every": "x"}, "publish_every='x' is not a number of 1 or more"),
        ({"partitions": "0"}, "partitions='0'"),
        ({"partition_by": "hash"}, "partition_by='hash'"),
        ({"spec": spec_json(stores.session("s", 1))}, r"not a changelog|too short|session"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        sink(tmp_path, ("value", "timestamp", "headers"), **options)
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_written_anew_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"use outputMode\('append'\)"):
        inboxes.sink_of({**OPTIONS, "path": str(tmp_path)}, pa.table({}), overwrite=True)


def test_a_stream_is_written_with_format_kstore(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    log = logs.make_log(7, 300, logs.SHARDS)
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"

    def run(df: DataFrame) -> None:
        writer = df.writeStream.format("kstore").options(**OPTIONS).trigger(**AVAILABLE)
        writer.option("checkpointLocation", str(checkpoint)).start(str(root)).awaitTermination()

    slices = slices_of(log, 3)
    add_epochs(source, slices[:2])
    run(epochs_of(spark, source).repartition(2))
    assert forget_last_epoch(checkpoint) == 1
    add_epochs(source, slices[2:])
    run(epochs_of(spark, source).repartition(2))
    assert logs.history(spark, root) == logs.visible(logs.model_of(log))
    assert Root.at(root).versions() == [1, 2, 3]
    assert Root.at(root).load().records == 300

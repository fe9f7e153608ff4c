"""A task over a state directory of the caller's, as a runner uses it."""

import pytest

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.changelog import ChangelogDirectory
from kstore_core.errors import TopologyError
from kstore_core.processing import Input, Task, Topology

COUNTS = stores.key_value("counts", key=serdes.UTF8, value=serdes.INT64)


def count(context, record):
    store = context.store("counts")
    store.put(record.key, (store.get(record.key) or 0) + 1)
    if record.value == b"bad":
        raise ValueError("a bad record")
    context.forward(record.replace(value=store.get(record.key)))


TOPOLOGY = (
    Topology()
    .add_source("s", ["a", "b"], key=serdes.UTF8)
    .add_processor("count", count, ["s"], stores=[COUNTS])
    .add_sink("k", "counts", ["count"], key=serdes.UTF8, value=serdes.INT64)
)


def record(topic, offset, timestamp, key=b"k", value=b"v"):
    return Input(topic, 3, offset, timestamp, key, value, Headers())


def task_of(state):
    (part,) = TOPOLOGY.subtopologies
    return Task(part, state, clock=lambda: 77)


def test_records_of_several_partitions_are_processed_by_time(tmp_path):
    with open_state(tmp_path / "0_3", engine="memory") as state:
        task = task_of(state)
        for given in (record("a", 10, 5), record("a", 11, 1), record("b", 20, 3)):
            task.add(given)
        assert task.context.stream_time == -1
        while task.process():
            pass
        assert [output.timestamp for output in task.outputs] == [3, 5, 1]
        assert task.offsets == {("a", 3): 11, ("b", 3): 20}
        assert task.context.partition_times == {("a", 3): 5, ("b", 3): 3}
        assert (task.context.stream_time, task.context.system_time) == (5, 77)
        with pytest.raises(TopologyError, match="no source reads the topic 'c'"):
            task.add(record("c", 0, 1))


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb"])
def test_a_later_task_continues_from_the_last_commit(tmp_path, engine):
    directory = tmp_path / "app" / "0_3"
    logs = ChangelogDirectory(tmp_path / "logs")
    with open_state(directory, engine=engine, changelog=logs) as state:
        task = task_of(state)
        task.add(record("a", 0, 5))
        assert task.process()
        task.commit()
        task.close()
    state = open_state(directory, engine=engine, changelog=logs)
    task = task_of(state)
    task.add(record("a", 1, 6, value=b"bad"))
    with pytest.raises(ValueError, match="a bad record") as error:
        task.process()
    assert "the node 'count' raised this error, while it processed a-3@1" in error.value.__notes__
    assert (task.offsets, task.outputs) == ({}, [])
    state.close()  # discards the write of the bad record
    with open_state(directory, engine=engine, changelog=logs) as state:
        assert state.offsets()["a", 3] == 0
        task = task_of(state)
        task.add(record("a", 1, 6))
        assert task.process()
        (output,) = task.outputs
        assert serdes.INT64.deserialize(output.value) == 2

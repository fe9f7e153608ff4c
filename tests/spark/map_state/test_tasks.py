"""An epoch of a shard: applied once, whatever is asked again, dies or is refused."""

from __future__ import annotations

import dataclasses
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import open_state, serdes, stores
from kstore_core.arrow import headers_type
from kstore_core.errors import (
    EngineLockedError,
    EngineUnavailableError,
    InconsistentStateError,
    SpecError,
    StateError,
    UncommittedLimitError,
)
from kstore_core.spark.live.epochs import BATCH, Epoch
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.map_state.sharding import Sharding
from kstore_core.spark.map_state.tasks import ShardTask
from kstore_core.types import Windowed
from tests.spark.map_state.task_runs import (
    TOTALS,
    amounts,
    epoch,
    given_by,
    make_task,
    running_total,
)

ENGINES = ("lmdb", "rocksdb")


def kept(task: ShardTask, shard: int = 0) -> dict[str, int]:
    """What the shard's store holds."""
    with open_state(task.state.layout.shard(shard), read_only=True) as state:
        return dict(state.open(task.spec).all())


@pytest.mark.parametrize("engine", ENGINES)
def test_an_epoch_that_comes_again_gives_the_same_and_changes_nothing(
    root: Path, engine: str
) -> None:
    task = make_task(root, engine=engine)
    first = task.apply(0, epoch(0), amounts([("a", 1), ("b", 5), ("a", 2)]))
    assert given_by(first) == [("a", 1), ("a", 3), ("b", 5)]
    for _ in range(2):
        again = task.apply(0, epoch(0), amounts([("a", 1), ("b", 5), ("a", 2)]))
        assert again.equals(first)
    assert given_by(task.apply(0, epoch(3), amounts([("a", 10)]))) == [("a", 13)]
    assert kept(task) == {"a": 13, "b": 5}


def test_an_epoch_that_gave_nothing_gives_nothing_again(root: Path) -> None:
    def silent(key: str, rows: Any, store: Any) -> None:
        store.put(key, (store.get(key) or 0) + len(rows))

    task = make_task(root, silent)
    for _ in range(2):
        output = task.apply(0, epoch(1), amounts([("a", 0)]))
        assert (output.num_rows, output.schema.names) == (0, ["key", "total"])
    assert kept(task) == {"a": 1}


class CrashError(Exception):
    """The process is gone before it could commit."""


Turn = tuple[list[tuple[str, int]], str]
TURNS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=6),
        st.sampled_from(["applied", "applied", "crash", "twice"]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=25)
@given(TURNS)
def test_whatever_is_asked_again_each_epoch_counts_once(turns: list[Turn]) -> None:
    model: dict[str, int] = {}

    def total(key: str, rows: Any, store: Any) -> Any:
        yield from running_total(key, rows, store)
        if crashing:
            raise CrashError

    with tempfile.TemporaryDirectory() as scratch:
        task = make_task(Path(scratch), total)
        for number, (rows, fate) in enumerate(turns):
            crashing = fate == "crash"
            if crashing:
                with pytest.raises(CrashError):
                    task.apply(0, epoch(number), amounts(rows))
                crashing = False
            expected = []
            for key in dict.fromkeys(key for key, _ in rows):
                for amount in (amount for other, amount in rows if other == key):
                    model[key] = model.get(key, 0) + amount
                    expected.append((key, model[key]))
            for _ in range(2 if fate == "twice" else 1):
                assert given_by(task.apply(0, epoch(number), amounts(rows))) == expected
        if turns:
            assert kept(task) == model


def test_what_a_function_raises_is_passed_on_and_undoes_the_epoch(root: Path) -> None:
    def picky(key: str, rows: Any, store: Any) -> Any:
        store.put(key, 1)
        if key == "bad":
            raise LookupError("no such thing")
        return [(key, 1)]

    task = make_task(root, picky)
    task.apply(2, epoch(0), amounts([("good", 0)]))
    with pytest.raises(LookupError, match="no such thing") as caught:
        task.apply(2, epoch(1), amounts([("other", 0), ("bad", 0)]))
    told = "\n".join(caught.value.__notes__)
    assert "picky was called with the key 'bad', <1 rows of key, amount>" in told
    assert "shard 2" in told
    assert "applied epoch 1 of the query 9c3f to shard 2" in told
    assert kept(task, 2) == {"good": 1}


def test_output_that_does_not_fit_undoes_the_epoch(root: Path) -> None:
    task = make_task(root, lambda key, rows, store: store.put(key, 1) or [(key, "many")])
    message = r"row 0 of the output for the key 'a', column 'total': 'many' \(str\) is not an int"
    with pytest.raises(SpecError, match=message) as caught:
        task.apply(1, epoch(0), amounts([("a", 0)]))
    assert "shard 1" in "\n".join(caught.value.__notes__)
    fine = dataclasses.replace(task, work=make_task(root).work)
    assert given_by(fine.apply(1, epoch(0), amounts([("a", 7)]))) == [("a", 7)]


def test_headers_go_in_and_out_through_the_store(root: Path) -> None:
    spec = stores.timestamped_key_value_with_headers("last", key=serdes.UTF8, value=serdes.INT64)
    schema = pa.schema([("key", pa.string()), ("headers", headers_type())])

    def before(key: str, rows: Any, store: Any) -> Any:
        for row in rows:
            known = store.get(key)
            yield key, None if known is None else known.headers
            store.put(key, row.amount, timestamp=row.amount, headers=row.headers)

    task = make_task(root, before, spec=spec, schema=schema, names=("key", "amount", "headers"))
    headers = [[("a", b"1"), ("a", None)], None]
    table = amounts([("k", 1), ("k", 2)]).append_column(
        "headers", pa.array(headers, headers_type())
    )
    output = task.apply(0, epoch(0), table)
    assert output.column(1).to_pylist() == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
    ]
    assert task.apply(0, epoch(0), table).equals(output)


@pytest.mark.parametrize(
    "spec",
    [
        stores.versioned_key_value("v", 10_000, key=serdes.UTF8, value=serdes.INT64),
        stores.window("w", 10_000, 10, key=serdes.UTF8, value=serdes.INT64),
    ],
    ids=["versioned", "window"],
)
def test_any_shape_of_store_will_do(root: Path, spec: Any) -> None:
    def versions(key: str, rows: Any, store: Any) -> Any:
        for row in rows:
            if spec.shape == "versioned":
                store.put(key, row.amount, timestamp=row.amount)
            else:
                store.put(key, row.amount, window_start=row.amount)
        found = store.history(key) if spec.shape == "versioned" else list(store.fetch(key))
        return [(key, len(found))]

    task = make_task(root, versions, spec=spec)
    assert given_by(task.apply(0, epoch(0), amounts([("a", 10), ("a", 20)]))) == [("a", 2)]
    assert given_by(task.apply(0, epoch(1), amounts([("a", 30)]))) == [("a", 3)]


@pytest.mark.parametrize(
    "spec",
    [
        stores.versioned_key_value("v", 5, 1, key=serdes.UTF8, value=serdes.INT64),
        stores.window("w", 5, 1, segment_interval_ms=1, key=serdes.UTF8, value=serdes.INT64),
        stores.session("s", 5, 1, key=serdes.UTF8, value=serdes.INT64),
    ],
    ids=["versioned", "window", "session"],
)
def test_what_is_late_does_not_hang_on_the_order_of_the_keys(root: Path, spec: Any) -> None:
    """It is judged by stream time before the micro-batch, as by a watermark of Spark."""

    def put(key: str, rows: Any, store: Any) -> Any:
        for row in rows:
            if spec.shape == "versioned":
                store.put(key, row.amount, timestamp=row.amount)
            elif spec.shape == "window":
                store.put(key, row.amount, window_start=row.amount)
            else:
                store.put(Windowed(key, row.amount, row.amount), row.amount)
        found = store.history(key) if spec.shape == "versioned" else list(store.fetch(key))
        return [(key, len(found))]

    task = make_task(root, put, spec=spec)
    early, late = [("b", 10), ("b", 11)], [("a", 100), ("a", 99)]
    for shard, rows in enumerate((early + late, late + early)):
        found = given_by(task.apply(shard, epoch(0), amounts(rows)))
        assert sorted(found) == [("a", 2), ("b", 2)]
    assert given_by(task.apply(0, epoch(1), amounts([("c", 12), ("c", 98)]))) == [("c", 1)]
    with open_state(task.state.layout.shard(0), read_only=True) as state:
        assert state.open(spec).stream_time == 100


def test_a_key_serde_makes_the_keys_of_bytes(root: Path) -> None:
    spec = stores.key_value("numbers", key=serdes.INT64, value=serdes.INT64)
    task = make_task(root, spec=spec, schema=pa.schema([("key", pa.int64()), ("n", pa.int64())]))
    raw = [number.to_bytes(8, "big", signed=True) for number in (7, -7, 7)]
    rows = pa.table({"key": pa.array(raw, pa.binary()), "amount": [1, 2, 3]})
    assert given_by(task.apply(0, epoch(0), rows)) == [(7, 1), (7, 4), (-7, 2)]


def batches(shards: list[int | None]) -> list[pa.RecordBatch]:
    rows = amounts([("a", 1)] * len(shards))
    return rows.append_column("shard", pa.array(shards, pa.int32())).to_batches(2)


def test_the_rows_of_a_task_are_of_one_shard(root: Path) -> None:
    task = make_task(root, batch_run=1)
    assert list(task.run(iter([]))) == []
    assert list(task.run(iter(batches([])))) == []
    (output,) = task.run(iter(batches([3, 3, 3])))
    assert output.schema.names == ["column0", "column1"]
    assert output.num_rows == 3
    assert kept(task, 3) == {"a": 3}
    with pytest.raises(SpecError, match="1 rows have a null in the column 'partition'"):
        list(task.run(iter(batches([3, None]))))
    with pytest.raises(SpecError, match=r"partitions 3 to 4, .* pass partitions=5 and a new root"):
        list(task.run(iter(batches([3, 4]))))
    with pytest.raises(StateError, match="the rows of the shards 1 to 3 to one task"):
        list(task.run(iter(batches([3, 1]))))


def test_a_row_without_a_key_is_refused(root: Path) -> None:
    with pytest.raises(SpecError, match="1 rows have a null in the column 'key'"):
        make_task(root).apply(0, epoch(0), amounts([("a", 1), (None, 1)]))


def test_a_stream_without_a_micro_batch_is_refused(root: Path) -> None:
    with pytest.raises(
        StateError, match=r"belongs to no micro-batch, because Spark set sql\.stream"
    ):
        list(make_task(root).run(iter(batches([0]))))


def test_a_state_belongs_to_one_query(root: Path) -> None:
    task = make_task(root)
    task.apply(0, epoch(0), amounts([("a", 1)]))
    message = r"belongs to the streaming query 9c3f, so the query 77 cannot.*or pass another root"
    with pytest.raises(StateError, match=message) as caught:
        task.apply(1, epoch(0, "77"), amounts([("b", 1)]))
    owner = Path(str(caught.value).rsplit("remove ", 1)[1].split(" to give")[0])
    owner.unlink()
    assert given_by(task.apply(0, epoch(0, "77"), amounts([("a", 1)]))) == [("a", 2)]


def test_a_batch_run_may_come_before_a_query(root: Path) -> None:
    task = make_task(root)
    assert given_by(task.apply(0, Epoch(BATCH, 1), amounts([("a", 1)]))) == [("a", 1)]
    assert given_by(task.apply(0, epoch(0), amounts([("a", 1)]))) == [("a", 2)]
    with pytest.raises(
        StateError,
        match=r"stored there belongs to epoch 0 of the query '9c3f'.*one query at a time",
    ):
        task.apply(0, Epoch(BATCH, 1), amounts([("a", 1)]))


def test_an_older_checkpoint_than_the_state_is_refused(root: Path) -> None:
    task = make_task(root)
    for number in (4, 5):
        task.apply(0, epoch(number), amounts([("a", 1)]))
    with pytest.raises(StateError, match=r"contains epoch 5 .* Spark runs epoch 4"):
        task.apply(0, epoch(4), amounts([("a", 1)]))
    task.apply(1, Epoch(BATCH, 2), amounts([("a", 1)]))
    with pytest.raises(StateError, match="batch run 1, which was planned earlier"):
        task.apply(1, Epoch(BATCH, 1), amounts([("a", 1)]))


def test_another_schema_is_refused_where_the_old_output_is_asked_for(root: Path) -> None:
    task = make_task(root)
    task.apply(0, epoch(0), amounts([("a", 1)]))
    wider = pa.schema([("key", pa.string()), ("total", pa.float64())])
    other = make_task(root, schema=wider)
    with pytest.raises(StateError, match=r"total int64, not key string, total double"):
        other.apply(0, epoch(0), amounts([("a", 1)]))
    assert given_by(other.apply(0, epoch(1), amounts([("a", 1)]))) == [("a", 2.0)]


def test_a_second_function_on_the_same_shards_is_refused(root: Path) -> None:
    def other(key: str, rows: Any, store: Any) -> Any:
        return running_total(key, rows, store)

    make_task(root).apply(0, epoch(0), amounts([("a", 1)]))
    with pytest.raises(StateError, match=r"from the function running_total, but .*other"):
        make_task(root, other).apply(0, epoch(0), amounts([("a", 1)]))


def test_a_shard_that_another_task_has_is_told(root: Path) -> None:
    task = make_task(root)
    with (
        open_state(task.state.layout.shard(0), engine="lmdb"),
        pytest.raises(EngineLockedError, match="open for writing in this process") as caught,
    ):
        task.apply(0, epoch(0), amounts([("a", 1)]))
    assert "epoch 0 of the query 9c3f for shard 0" in caught.value.__notes__[0]
    assert "lock_timeout_s" in caught.value.__notes__[0]


def test_an_epoch_that_writes_too_much_is_told_and_undone(root: Path) -> None:
    task = make_task(root, uncommitted_max_bytes=1_000)
    rows = amounts([(f"key-{number}", 1) for number in range(200)])
    with pytest.raises(UncommittedLimitError) as caught:
        task.apply(0, epoch(0), rows)
    assert "pass a greater uncommitted_max_bytes" in "\n".join(caught.value.__notes__)
    larger = dataclasses.replace(task, uncommitted_max_bytes=1 << 20)
    assert larger.apply(0, epoch(0), rows).num_rows == 200


def test_a_machine_without_the_engine_says_so(root: Path) -> None:
    task = dataclasses.replace(make_task(root), engine="leveldb")
    with pytest.raises(EngineUnavailableError, match="'leveldb' cannot be used on"):
        task.apply(0, epoch(0), amounts([("a", 1)]))


def test_a_root_that_a_machine_does_not_see_is_told(root: Path, tmp_path: Path) -> None:
    task = make_task(root)
    other = make_task(tmp_path / "other")
    unseen = dataclasses.replace(task.state, layout=LiveLayout(root / "no"))
    elsewhere = dataclasses.replace(task, state=unseen)
    with pytest.raises(StateError, match=r"this worker sees no state.*all machines share"):
        elsewhere.apply(0, epoch(0), amounts([("a", 1)]))
    swapped = dataclasses.replace(task.state, layout=other.state.layout)
    mixed = dataclasses.replace(task, state=swapped)
    with pytest.raises(StateError, match="this worker sees another state"):
        mixed.apply(0, epoch(0), amounts([("a", 1)]))


def test_other_shards_are_refused(root: Path) -> None:
    task = make_task(root)
    spec = dataclasses.replace(TOTALS, key=serdes.INT64)
    with pytest.raises(
        SpecError, match=r"key is stored as 'utf8' and given as 'int64'; engine is stored as 'lmdb'"
    ):
        make_task(root, spec=spec, engine="rocksdb")
    bound = Sharding.of(task.state.layout)
    assert bound is not None
    assert bound[1].partitions == 4
    document = task.state.layout.path / "map_state.json"
    document.write_text(document.read_text().replace('"format": 1', '"format": 3'))
    with pytest.raises(
        StateError, match="has the layout 3, but this kstore reads only layouts up to 2"
    ):
        make_task(root)
    document.write_text("{")
    with pytest.raises(
        InconsistentStateError, match=r"map_state\.json is damaged .*Restore the file from a copy"
    ):
        make_task(root)


def test_runs_are_numbered(root: Path) -> None:
    state = make_task(root).state
    assert [state.begin_run() for _ in range(3)] == [1, 2, 3]
    assert [path.name for path in state.layout.path.glob("run-*")] == ["run-3"]


def test_a_root_that_cannot_be_made_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StateError, match=r"created or written: Permission denied\. Correct"):
        make_task(root)
    monkeypatch.undo()
    root.write_text("a file")
    with pytest.raises(StateError, match="cannot be created or written: Not a directory"):
        make_task(root)


class Summing:
    """A function that is an object."""

    def __call__(self, key: str, rows: Any, store: Any) -> Any:
        return list(running_total(key, rows, store))


@pytest.mark.parametrize("make", [Summing, lambda: partial(partial(running_total))])
def test_a_function_is_known_again_in_another_process(root: Path, make: Any) -> None:
    """There it is another object: its text would tell another address."""
    first = make_task(root, make()).apply(0, epoch(0), amounts([("a", 1)]))
    other = make()
    assert make_task(root, other).apply(0, epoch(0), amounts([("a", 1)])).equals(first)
    assert make_task(root, other).work.name in ("Summing", "running_total")

"""Files of changes: what an engine was asked to write, written again elsewhere, gives the same."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import open_state, serdes, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Engine, Rows
from kstore_core.errors import CorruptionError
from kstore_core.spark.remote.changes import apply_changes, decode_changes, encode_changes
from kstore_core.spark.remote.recording import Operation, RecordingEngine
from kstore_core.types import Windowed

KEYS = st.binary(min_size=1, max_size=4)
ROWS = st.builds(
    lambda rows, ranges: Rows(sorted(rows), [rows[key] for key in sorted(rows)], ranges),
    st.dictionaries(KEYS, st.none() | st.binary(max_size=5), max_size=4),
    st.lists(st.tuples(KEYS, st.none() | KEYS), max_size=2),
)
OPERATIONS = st.lists(
    st.builds(
        Operation,
        st.just("write"),
        st.sampled_from(["a", "b"]),
        st.none() | st.sampled_from(["a.1", "a.2"]),
        batch=st.dictionaries(st.sampled_from(["default", "x"]), ROWS, min_size=1),
    )
    | st.builds(Operation, st.just("drop_child"), st.just("a"), st.just("a.1"))
    | st.builds(
        Operation, st.just("rename_child"), st.just("a"), st.just("a.1"), name=st.just("a.2")
    ),
    max_size=6,
)


@settings(deadline=None)
@given(OPERATIONS)
def test_a_file_holds_what_it_was_made_of(operations: list[Operation]) -> None:
    assert list(decode_changes(encode_changes(operations), "here")) == operations


@pytest.mark.parametrize("damage", ["cut", "garbage", "newer"])
def test_a_damaged_file_is_named(damage: str) -> None:
    data = encode_changes([Operation("write", "a", batch={"default": Rows([b"k"], [b"v"])})])
    spoiled = {"cut": data[: len(data) // 2], "garbage": b"no arrow", "newer": b""}[damage]
    if damage == "newer":
        spoiled = data.replace(b"format", b"fromat")
    with pytest.raises(CorruptionError, match=r"s3://b/x\.arrow cannot be read as a file of chan"):
        list(decode_changes(spoiled, "s3://b/x.arrow"))


def contents(engine: Engine, root: Path) -> dict[Any, Any]:
    """Every row of every namespace of every database of a directory."""
    found = {}
    single = [(store, None) for store in engine.stores(root)]
    parents = engine.parents(root)
    split = [(store, child) for store in parents for child in engine.children(root, store)]
    for store, child in (*single, *split):
        database = (
            engine.open(root, store, read_only=True)
            if child is None
            else engine.open_child(root, store, child, read_only=True)
        )
        with closing(database):
            for name in database.namespaces():
                rows = [
                    row
                    for keys, values in database.namespace(name).scan()
                    for row in zip(keys, values, strict=True)
                ]
                if rows:
                    found[store, child, name] = rows
    return {"parents": parents, **found}


def fill(state: Any, store: Any, turn: int) -> None:
    """Write, replace, delete and expire."""
    spec = store.spec
    for number in range(30):
        time, key = turn * 40 + number, f"k{number % 7}"
        if spec.shape == "versioned":
            store.put(key, number, timestamp=time)
        elif spec.shape == "window":
            store.put(key, number, window_start=time)
        elif spec.shape == "session":
            store.put(Windowed(key, time, time + 2), number)
        elif number % 5:
            store.put(key, number)
        else:
            store.delete(key)
    state.commit({("t", 0): turn}, notes={"a": str(turn).encode()})


SPECS = [
    stores.key_value("k", key=serdes.UTF8, value=serdes.INT64),
    stores.versioned_key_value("v", 50, 10, key=serdes.UTF8, value=serdes.INT64),
    stores.window("w", 50, 5, segment_interval_ms=20, key=serdes.UTF8, value=serdes.INT64),
    stores.session("s", 50, 20, key=serdes.UTF8, value=serdes.INT64),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.shape)
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
@pytest.mark.parametrize("spill", [-1, 300], ids=["whole", "spilled"])
def test_written_again_the_changes_give_the_same_directory(
    tmp_path: Path, engine: str, spec: Any, spill: int
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    plain = make_engine(engine)
    for turn in range(4):
        recording = RecordingEngine(make_engine(engine))
        with open_state(here, engine=recording, uncommitted_max_bytes=spill) as state:
            store = state.open(spec)
            fill(state, store, turn)
            if turn == 2:
                fill(state, store, turn + 1)
        data = encode_changes(recording.operations)
        assert recording.operations
        apply_changes(plain, there, decode_changes(data, "a file"))
        assert contents(plain, there) == contents(plain, here)
    with open_state(there, engine=engine) as state:
        state.open(spec)
        assert state.offsets() == {("t", 0): 3}


def test_a_bulk_load_and_a_dropped_namespace_are_changes(tmp_path: Path) -> None:
    recording = RecordingEngine(make_engine("rocksdb"))
    here, there = tmp_path / "here", tmp_path / "there"
    with closing(recording.open(here, "s")) as database:
        database.namespace("old")
        database.write({"old": Rows([b"a"], [b"1"])})
        assert database.load("default", [([b"a", b"b"], [b"1", b"2"]), ([b"c"], [b"3"])]) == 3
        database.drop_namespace("old")
    kinds = [operation.kind for operation in recording.operations]
    assert kinds == ["write", "write", "write", "drop_namespace"]
    apply_changes(make_engine("rocksdb"), there, recording.operations)
    plain = make_engine("rocksdb")
    assert contents(plain, there) == contents(plain, here)


def test_a_write_that_fails_is_no_change(tmp_path: Path) -> None:
    recording = RecordingEngine(make_engine("lmdb"))
    with closing(recording.open(tmp_path, "s")) as database:
        with pytest.raises(KeyError):
            database.write({"missing": Rows([b"a"], [b"1"])})
        batch = {"default": Rows([b"a"], [b"1"])}
        database.write(batch)
        batch["default"].keys.clear()
    (only,) = recording.operations
    assert only.batch["default"].keys == [b"a"]

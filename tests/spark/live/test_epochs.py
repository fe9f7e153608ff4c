"""The ledger of epochs: committed with the rows, found again, and refused where it cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import CorruptionError, StateError
from kstore_core.spark.live.epochs import commit_epoch, last_epoch

QUERY = "5f0c9a4e-1b7d-4f10-9a39-000000000001"  # ends like a partition's number
PLAIN = stores.key_value("plain", key=serdes.UTF8, value=serdes.UTF8)
WINDOWS = stores.window("windows", 1000, 10, key=serdes.UTF8, value=serdes.UTF8)
VERSIONS = stores.versioned_key_value("versions", 1000, key=serdes.UTF8, value=serdes.UTF8)


def put(store: Any, value: str, time: int) -> None:
    if store.spec.shape == "window":
        store.put("k", value, window_start=time)
    elif store.spec.shape == "versioned":
        store.put("k", value, timestamp=time)
    else:
        store.put("k", value)


@pytest.mark.parametrize("engine", ["rocksdb", "lmdb", "memory"])
@pytest.mark.parametrize("spec", [PLAIN, VERSIONS, WINDOWS], ids=lambda spec: spec.name)
def test_an_epoch_is_found_again_with_its_offsets(tmp_path: Path, spec: Any, engine: str) -> None:
    path = tmp_path / "0_0"
    with open_state(path, engine=engine) as state:
        store = state.open(spec)
        assert last_epoch(state, QUERY) is None
        for epoch, time in enumerate((5, 500, 990, 400)):  # in segments of their own, and back
            put(store, str(epoch), time)
            commit_epoch(state, QUERY, epoch, {("log", 0): 10 * epoch}, notes={"say": b"hi"})
            assert last_epoch(state, QUERY) == epoch
        commit_epoch(state, "another", 7)
        put(store, "lost", 990)
        state.close()  # discards it
    if engine == "memory":
        return
    with open_state(path) as state:
        store = state.open(spec)
        assert (last_epoch(state, QUERY), last_epoch(state, "another")) == (3, 7)
        assert state.offsets() == {("log", 0): 30}
        assert state.notes(spec.name)["say"] == b"hi"
        assert last_epoch(state, "a third") is None
        commit_epoch(state, QUERY, 9, notes={"say": None})
    with open_state(path, read_only=True) as state:
        assert last_epoch(state, QUERY) == 9
        assert set(state.notes(spec.name)) == {"epochs"}
        assert state.offsets() == {("log", 0): 30}


def test_of_several_stores_the_one_that_is_behind_counts(tmp_path: Path) -> None:
    path = tmp_path / "0_0"
    with open_state(path, engine="rocksdb") as state:
        state.open(PLAIN)
        commit_epoch(state, QUERY, 4)
        state.open(VERSIONS)
        assert last_epoch(state, QUERY) is None
        commit_epoch(state, QUERY, 5)
        assert last_epoch(state, QUERY) == 5
    with open_state(path) as state:
        state.open(PLAIN)
        with pytest.raises(StateError, match="not open: versions"):
            commit_epoch(state, QUERY, 6)
        state.commit(notes={"epochs": b'{"%s":8}' % QUERY.encode()})
        assert last_epoch(state, QUERY) == 5


def test_an_epoch_that_is_contained_is_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        store = state.open(PLAIN)
        commit_epoch(state, QUERY, 4)
        for epoch in (4, 3):
            put(store, "x", 0)
            with pytest.raises(StateError, match=f"contains epoch 4 .* epoch {epoch} cannot be"):
                commit_epoch(state, QUERY, epoch)


def test_what_is_no_epoch_is_refused(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        with pytest.raises(StateError, match="no store is open"):
            commit_epoch(state, QUERY, 0)
        state.open(PLAIN)
        for query, epoch in ((1, 1), (QUERY, True), (QUERY, "1")):
            with pytest.raises(TypeError, match=r"must be str|must be int"):
                commit_epoch(state, query, epoch)  # type: ignore[arg-type]
        for query, epoch in (("", 1), (QUERY, -1)):
            with pytest.raises(ValueError, match=r"is empty, or epoch=.* is negative"):
                commit_epoch(state, query, epoch)
        assert last_epoch(state, QUERY) is None


@pytest.mark.parametrize("note", [b"", b"[]", b'{"q":"1"}', b'{"q":true}', b"\xff"])
def test_a_damaged_ledger_is_told(tmp_path: Path, note: bytes) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(PLAIN)
        state.commit(notes={"epochs": note})
        with pytest.raises(CorruptionError, match=r"the store 'plain' .* is damaged"):
            last_epoch(state, QUERY)


def test_notes_have_names_and_bytes(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(PLAIN)
        for name in ("", "Big", "a-1", "é", "x" * 65):
            with pytest.raises(ValueError, match="is not a valid name of a note"):
                state.commit(notes={name: b""})
        for notes in ([b""], {b"a": b""}, {"a": "text"}):
            with pytest.raises(TypeError, match="note"):
                state.commit(notes=notes)  # type: ignore[arg-type]
        assert state.notes("plain") == {}
        with pytest.raises(StateError, match="no store"):
            state.notes("other")

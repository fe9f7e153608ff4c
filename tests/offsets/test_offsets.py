"""The offsets namespace: what is committed beside a store's rows, and what is read back."""

import json
import struct

import numpy as np
import pytest

from kstore_core import stores
from kstore_core.changelog import ChangelogDirectory, FileChangelog
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import CorruptionError, StateError
from kstore_core.offsets.entries import STATUS, Entries, StoreRecord, common_offsets, read_record
from kstore_core.offsets.position import encode_position
from kstore_core.tables import OFFSETS
from tests.typed.homes import database_of

LONG = struct.Struct(">q").pack
A, B = stores.key_value("a"), stores.key_value("b")


def record_of(rows):
    """What is read from these rows."""
    database = make_engine("memory").open(".", "s")
    namespace = database.namespace(OFFSETS)
    keys = sorted(rows)
    database.write({OFFSETS: Rows(keys, [rows[key] for key in keys])})
    return read_record(namespace)


def test_kafkas_entries_are_read():
    record = record_of(
        {
            b"app-store-changelog-0": LONG(41),
            b"other-12": LONG(7),
            b"position": encode_position({"t": {0: 5}}),
            b"status": LONG(1),
        }
    )
    assert record.offsets == {("app-store-changelog", 0): 41, ("other", 12): 7}
    assert record.position == {"t": {0: 5}}
    assert record.spec is None
    assert record.stream_time is None


def test_an_empty_namespace_says_nothing():
    assert record_of({}) == StoreRecord()


@pytest.mark.parametrize(
    "entry",
    [(b"t-0", b"short"), (b"nodash", LONG(1)), (b"t-", LONG(1)), (b"t-x", LONG(1)),
     (b"-", LONG(1)), (b"kstore.stream-time", b""), (b"kstore.stream-time", LONG(-2)),
     (b"kstore.stream-time", LONG(-(2**63)))],
)  # fmt: skip
def test_an_entry_that_cannot_be_one_is_corruption(entry):
    with pytest.raises(CorruptionError, match="offsets namespace"):
        record_of(dict([entry]))


def test_a_damaged_position_is_corruption():
    with pytest.raises(CorruptionError):
        record_of({b"position": b"\x01"})


def test_entries_of_a_newer_kstore_are_read_past():
    assert record_of({b"kstore.new-thing": b"whatever", b"t-0": LONG(1)}).offsets == {("t", 0): 1}


@pytest.mark.parametrize("topic", ["t", "a-b-c", "kstore.orders", "kstore.stream", "status", "x-1"])
def test_an_offset_reads_back_whatever_its_topic_is_called(topic):
    rows = Entries(offsets={(topic, 3): 9}).rows(StoreRecord())
    assert record_of(dict(zip(rows.keys, rows.values, strict=True))).offsets == {(topic, 3): 9}


def test_a_commit_is_sorted_entries():
    rows = Entries(
        offsets={("z", 1): 5, ("a", 0): 2},
        position={"t": {0: 1}},
        stream_time=99,
        spec=A,
    ).rows(StoreRecord())
    assert rows.keys == sorted(rows.keys)
    assert set(rows.keys) == {b"z-1", b"a-0", b"position", b"kstore.spec", b"kstore.stream-time"}
    record = record_of(dict(zip(rows.keys, rows.values, strict=True)))
    assert record.offsets == {("z", 1): 5, ("a", 0): 2}
    assert record.spec.describes(A)
    assert record.stream_time == 99


def test_none_leaves_all_as_it_is():
    record = StoreRecord({("t", 0): 5})
    assert not Entries().rows(record)


def test_an_empty_mapping_clears_and_none_clears_one():
    record = StoreRecord({("t", 0): 5, ("t", 1): 6})
    cleared = Entries(offsets={}).rows(record)
    assert (cleared.keys, cleared.values) == ([b"t-0", b"t-1"], [None, None])
    one = Entries(offsets={("t", 1): None}).rows(record)
    assert (one.keys, one.values) == ([b"t-1"], [None])


def test_what_all_stores_contain_is_the_least():
    first = StoreRecord({("t", 0): 5, ("t", 1): 1})
    second = StoreRecord({("t", 0): 3})
    assert common_offsets({"a": first, "b": second}) == {("t", 0): 3}, "b contains nothing of t-1"
    assert common_offsets({"a": first, "b": StoreRecord()}) == {}
    assert common_offsets({}) == {}


def test_a_changelog_is_its_stores_own():
    first = StoreRecord({("t", 0): 5, ("app-a-changelog", 0): 7})
    second = StoreRecord({("t", 0): 4, ("app-b-changelog", 0): 9})
    logs = {("app-a-changelog", 0): 7, ("app-b-changelog", 0): 9}
    assert common_offsets({"a": first, "b": second}) == {("t", 0): 4, **logs}
    del second.offsets["t", 0]
    assert common_offsets({"a": first, "b": second}) == logs


def test_an_offset_that_kafka_does_not_know_is_none():
    first = StoreRecord({("t", 0): 5, ("t", 1): 1})
    second = StoreRecord({("t", 0): -4, ("t", 1): 9})
    assert second.known_offsets == {("t", 1): 9}
    assert common_offsets({"a": first, "b": second}) == {("t", 1): 1}
    assert common_offsets({"a": first, "b": StoreRecord({("t", 0): -4})}) == {}


def test_a_store_that_was_only_restored_contains_no_input(home, tmp_path):
    """As a kill in the first commit leaves it: one store has it, the other one's log some of it."""
    logs = ChangelogDirectory(tmp_path / "logs", application_id="app", partition=0)
    with home.open(changelog=logs) as state:
        state.open(A).put(b"k", b"v")
        state.commit({("in", 0): 1})
    with FileChangelog(tmp_path / "logs", "app-b-changelog") as log:
        log.append(b"k", b"v", 5)
        log.commit()
    with home.open(changelog=logs) as state:
        state.open(A)
        assert state.open(B).get(b"k") == b"v"
        assert ("in", 0) not in state.offsets()
        assert state.offsets() == {("app-a-changelog", 0): 2, ("app-b-changelog", 0): 0}


def test_an_unknown_offset_is_not_given_out(home):
    with home.open() as state:
        state.open(A)
        state.commit({("orders", 0): -4})
    with home.open() as state:
        assert state.offsets() == state.offsets("a") == state.open(A).offsets() == {}


def test_an_offset_below_zero_is_named(home):
    with home.open() as state:
        state.open(A)
        with pytest.raises(ValueError, match=r"the offset of a-b-7 is -5, but must be 0 or more"):
            state.commit({("a-b", 7): -5})
        state.commit({("a-b", 7): np.int64(5)})
        assert state.offsets() == {("a-b", 7): 5}


def test_an_offset_below_zero_that_is_stored_is_read():
    """Earlier versions wrote any."""
    record = record_of({b"t-0": LONG(-4), b"t-1": LONG(-5)})
    assert record.offsets == {("t", 0): -4, ("t", 1): -5}


# The same, through a state directory.


def test_offsets_are_read_back_after_a_reopen(home):
    with home.open() as state:
        state.open(A)
        state.commit({("orders", 0): 41, ("kstore.orders", 7): 2**63 - 1})
        assert state.offsets() == {("orders", 0): 41, ("kstore.orders", 7): 2**63 - 1}
    with home.open() as state:
        assert state.offsets() == {("orders", 0): 41, ("kstore.orders", 7): 2**63 - 1}
        assert state.open(A).offsets() == state.offsets("a") == state.offsets()


def test_a_commit_without_offsets_keeps_them(home):
    with home.open() as state:
        store = state.open(A)
        state.commit({("t", 0): 1, ("t", 1): 2})
        store.put(b"k", b"v")
        state.commit()
        state.commit({("t", 1): 3})
        assert state.offsets() == {("t", 0): 1, ("t", 1): 3}
    with home.open() as state:
        assert state.offsets() == {("t", 0): 1, ("t", 1): 3}


def test_none_forgets_one_and_an_empty_mapping_forgets_all(home):
    with home.open() as state:
        state.open(A)
        state.commit({("t", 0): 1, ("t", 1): 2})
        state.commit({("t", 0): None, ("never-there", 0): None})
        assert state.offsets() == {("t", 1): 2}
    with home.open() as state:
        state.open(A)
        assert state.offsets() == {("t", 1): 2}
        state.commit({})
        assert state.offsets() == {}
    with home.open() as state:
        assert state.offsets() == {}


def test_over_several_stores_the_least_offset_counts(home):
    with home.open() as state:
        state.open(A)
        state.commit({("t", 0): 1})
        state.open(B)
        assert state.offsets() == {}  # b contains nothing yet
        state.commit({("t", 0): 5})
        assert state.offsets() == {("t", 0): 5}
    with home.open() as state:
        state.open(A)
        state.commit({("t", 0): 9})
        assert state.offsets("a") == {("t", 0): 9}
        assert state.offsets("b") == {("t", 0): 5}
        assert state.offsets() == {("t", 0): 5}  # b is on disk, though nobody opened it


def test_handed_out_offsets_are_copies(home):
    with home.open() as state:
        store = state.open(A)
        state.commit({("t", 0): 1})
        for offsets in (state.offsets(), state.offsets("a"), store.offsets()):
            offsets.clear()
        assert state.offsets() == store.offsets() == {("t", 0): 1}


def test_offsets_of_a_store_that_is_not_there(home):
    with home.open() as state, pytest.raises(StateError, match="has no store 'a'"):
        state.offsets("a")


UNKEEPABLE = [
    {("t", 0): "5"},
    {("t", 0): 1.5},
    {("t", 0): True},
    {("t", 0): 2**63},
    {("t", 0): -(2**63) - 1},
    *({("t", 1): 3, ("t", 0): below} for below in (-1, -2, -3, -5, -6, -(2**63))),
    {("t", 0): np.int64(-5)},
    {("t", "0"): 5},
    {("t", -1): 5},
    {("t", 2**31): 5},
    {("t", 0.0): 5},
    {(5, 0): 5},
    {(b"t", 0): 5},
    {("", 0): 5},
    {("\ud800", 0): 5},
    {("t", 0, 0): 5},
    {"t": 5},
    {"t-0": 5},
    [("t", 0)],
    5,
    "t",
]


def test_offsets_that_could_not_be_read_back_are_refused_before_anything_is_written(home):
    with home.open() as state:
        first, second = state.open(A), state.open(B)
        first.put(b"k", b"v")
        for offsets in UNKEEPABLE:
            with pytest.raises((TypeError, ValueError)):
                state.commit(offsets)
            assert state.staged_bytes == 2
        state.commit({("t", 0): 1})
        assert first.offsets() == second.offsets() == {("t", 0): 1}
    with home.open(read_only=True) as state:
        assert state.offsets() == {("t", 0): 1}
        assert state.open(A).get(b"k") == b"v"


def test_a_number_may_be_numpys(home):
    with home.open() as state:
        state.open(A)
        state.commit({("t", np.int32(1)): np.int64(5)})
        assert state.offsets() == {("t", 1): 5}
    with home.open() as state:
        assert state.offsets() == {("t", 1): 5}


VERSIONED = stores.versioned_key_value("v", 1000, 10)


def test_spec_and_stream_time_lie_beside_the_offsets(home):
    with home.open() as state:
        state.open(VERSIONED).put(b"k", b"v", timestamp=77)
    with database_of(home, "v") as database:
        entries = database.namespace(OFFSETS)
        assert entries.get(b"kstore.stream-time") == LONG(77)
        assert json.loads(entries.get(b"kstore.spec")) == {
            "version": 1,
            "name": "v",
            "shape": "versioned",
            "format": "versioned",
            "key": "bytes",
            "value": "bytes",
            "history_retention_ms": 1000,
            "segment_interval_ms": 10,
        }


def test_a_store_opens_though_kafka_deleted_what_it_does_not_know(home):
    with home.open() as state:
        store = state.open(VERSIONED)
        for timestamp in (10, 20, 30):
            store.put(b"k", b"v", timestamp=timestamp)
        state.commit({("t", 0): 3})
        before = store.history(b"k")
    with database_of(home, "v") as database:
        database.write({OFFSETS: Rows([b"kstore.spec", b"kstore.stream-time"], [None, None])})
    with home.open() as state:
        assert state.stored_spec("v") is None
        store = state.open(VERSIONED)
        assert store.stream_time == -1
        assert store.history(b"k") == before
        assert store.offsets() == {("t", 0): 3}
    with home.open() as state:
        assert state.stored_spec("v").describes(VERSIONED)


def test_the_open_marker_is_kafkas(home):
    """1 while a writer has the store open without a transaction, 0 after it was closed."""
    with home.open() as state:
        state.open(A)
    with database_of(home, "a") as database:
        assert database.namespace(OFFSETS).get(STATUS) == LONG(0)
    with home.open() as state:
        state.open(A)
        with home.open(read_only=True) as reader:
            database = reader.engine.open(home.path, "a", read_only=True)
            assert database.namespace(OFFSETS).get(STATUS) == LONG(1)
            database.close()

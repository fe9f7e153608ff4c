"""Staging: what is written and not committed is read first, counted to the byte, and spilled."""

import gc

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kstore_core import open_state, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import (
    ForkedHandleError,
    KeyTooLongError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.tables.staging import StagedNamespace, Staging, take
from tests.typed.processes import in_a_child

KEYS = st.one_of(st.binary(max_size=2), st.sampled_from([b"k", b"k\x00", b"\xff\xff"]))
ENDS = st.none() | KEYS


def database(path, name="s"):
    return make_engine("memory").open(path, name)


def items(chunks):
    return [pair for keys, values in chunks for pair in zip(keys, values, strict=True) if keys]


class StagingMachine(RuleBasedStateMachine):
    """One namespace, its stored rows and what is staged over them, against two plain models."""

    def __init__(self):
        super().__init__()
        self.staging = Staging(-1)
        self.database = database(".")
        self.rows = StagedNamespace(self.staging, self.database, "default")
        self.model = {}
        self.staged = {}
        self.scans = []

    @rule(key=KEYS, value=st.none() | st.binary(max_size=5))
    def put(self, key, value):
        self.rows.put(key, value)
        self.note(key, value)

    def note(self, key, value):
        self.staged[key] = value
        self.model[key] = value
        if value is None:
            del self.model[key]

    @rule(rows=st.dictionaries(KEYS, st.none() | st.binary(max_size=5), max_size=6))
    def put_many(self, rows):
        self.rows.put_many(rows)
        for key, value in rows.items():
            self.note(key, value)

    @rule(rows=st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=5)), max_size=6))
    def put_columns(self, rows):
        self.rows.put_columns([key for key, _ in rows], [value for _, value in rows])
        for key, value in rows:
            self.note(key, value)

    @rule(lo=KEYS, hi=ENDS)
    def delete_range(self, lo, hi):
        self.rows.delete_range(lo, hi)
        for rows in (self.model, self.staged):
            for key in [key for key in rows if lo <= key and (hi is None or key < hi)]:
                del rows[key]

    @rule()
    def flush(self):
        self.database.write({"default": self.rows.staged()})
        self.rows.clear()
        self.staged = {}

    @rule(
        rows=st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=5)), min_size=1, max_size=6),
        doomed=st.none() | st.tuples(KEYS, ENDS),
    )
    def flush_while_another_thread_writes(self, rows, doomed):
        written = self.rows.staged()
        self.database.write({"default": written})
        if doomed is not None:
            self.delete_range(*doomed)
        for key, value in rows:
            self.rows.put(key, value)
            self.note(key, value)
        self.rows.clear(written)
        left = self.rows.staged()
        self.staged = dict(zip(left.keys, left.values, strict=True))

    @rule(keys=st.lists(KEYS, max_size=6))
    def get(self, keys):
        wanted = [self.model.get(key) for key in keys]
        assert [self.rows.get(key) for key in keys] == wanted
        assert self.rows.get_many(keys) == wanted

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def scan(self, lo, hi, reverse):
        wanted = self.wanted(lo, hi, reverse)
        assert items(self.rows.scan(lo, hi, reverse=reverse)) == wanted
        first = wanted[0] if wanted else None
        assert self.rows.first(lo, hi, reverse=reverse) == first

    @rule(reverse=st.booleans())
    def begin_a_scan(self, reverse):
        scan = self.rows.scan(reverse=reverse)
        self.scans.append((scan, self.wanted(None, None, reverse)))

    @rule()
    def finish_a_scan(self):
        if self.scans:
            scan, wanted = self.scans.pop()
            assert items(scan) == wanted

    def wanted(self, lo, hi, reverse):
        return [
            (key, self.model[key])
            for key in sorted(self.model, reverse=reverse)
            if (lo is None or lo <= key) and (hi is None or key < hi)
        ]

    @invariant()
    def every_staged_byte_is_counted(self):
        exact = sum(len(key) + len(value or b"") for key, value in self.staged.items())
        assert self.staging.staged_bytes == exact

    @invariant()
    def a_commit_would_write_sorted_rows(self):
        rows = self.rows.staged()
        assert rows.keys == sorted(self.staged)
        assert dict(zip(rows.keys, rows.values, strict=True)) == self.staged


def test_staged_rows_over_stored_ones():
    run_state_machine_as_test(
        StagingMachine, settings=settings(max_examples=150, stateful_step_count=30, deadline=None)
    )


def test_a_row_put_again_after_its_range_was_deleted_while_it_was_written_stays(tmp_path):
    stored = database(tmp_path)
    rows = StagedNamespace(Staging(-1), stored, "default")
    value = b"the same object"
    rows.put(b"k", value)
    written = rows.staged()
    stored.write({"default": written})
    rows.delete_range(b"a", b"z")
    rows.put(b"k", value)
    rows.clear(written)
    assert rows.get(b"k") == value
    assert items(rows.scan()) == [(b"k", value)]


def test_a_row_that_is_put_while_others_are_cleared_stays(tmp_path):
    """The garbage collector may run anywhere, and its finalizers let other threads run."""
    stored = database(tmp_path)
    rows = StagedNamespace(Staging(-1), stored, "default")
    put = []

    def collected(phase, _):
        if phase == "start":
            put.append(b"%d" % len(put))
            rows.put(put[-1], b"x")

    before = gc.get_threshold()
    for _ in range(20):
        written = rows.staged()
        stored.write({"default": written})
        gc.callbacks.append(collected)
        gc.set_threshold(1)
        try:
            rows.clear(written)
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(collected)
        assert {key for key, _ in items(rows.scan())} == set(put)
    assert put


def test_namespaces_share_one_budget(tmp_path):
    staging = Staging(100)
    first = StagedNamespace(staging, database(tmp_path), "default")
    second = StagedNamespace(staging, database(tmp_path), "default")
    first.put(b"a", b"1234")
    second.put(b"b", b"12")
    assert staging.staged_bytes == 8
    first.close()
    assert staging.staged_bytes == 3


def test_a_loaded_row_stays_below_what_is_staged(tmp_path):
    rows = StagedNamespace(Staging(-1), database(tmp_path), "default")
    rows.put(b"a", b"staged")
    rows.put(b"b", None)
    assert rows.load([([b"a", b"b", b"c"], [b"1", b"2", b"3"])]) == 3
    assert items(rows.scan()) == [(b"a", b"staged"), (b"c", b"3")]


def test_a_closed_namespace_refuses_everything(tmp_path):
    rows = StagedNamespace(Staging(-1), database(tmp_path), "default")
    rows.put(b"a", b"1")
    rows.close()
    rows.close()
    for use in (
        lambda: rows.get(b"a"),
        lambda: rows.get_many([b"a"]),
        lambda: rows.put(b"a", b"2"),
        lambda: rows.delete_range(b"a", None),
        lambda: rows.scan(),
        lambda: rows.first(),
        lambda: rows.load([]),
        lambda: rows.approximate_count(),
    ):
        with pytest.raises(StoreClosedError):
            use()


def test_a_namespace_that_is_not_writable_refuses_writes(tmp_path):
    rows = StagedNamespace(Staging(-1), database(tmp_path), "default", False)
    for write in (
        lambda: rows.put(b"a", b"1"),
        lambda: rows.put(b"a", None),
        lambda: rows.delete_range(b"a", None),
        lambda: rows.load([]),
    ):
        with pytest.raises(UnsupportedError, match="read_only"):
            write()
    assert items(rows.scan()) == []


@pytest.mark.parametrize(
    ("key", "value"), [("a", b"1"), (b"a", "1"), (1, b"1"), (bytearray(b"a"), b"1"), (None, b"1")]
)
def test_only_bytes_are_staged(tmp_path, key, value):
    staging = Staging(-1)
    rows = StagedNamespace(staging, database(tmp_path), "default")
    with pytest.raises(TypeError):
        rows.put(key, value)
    assert staging.staged_bytes == 0
    assert not rows.staged()


@pytest.mark.parametrize("lo", [None, "a"])
def test_a_deleted_range_begins_with_bytes(tmp_path, lo):
    rows = StagedNamespace(Staging(-1), database(tmp_path), "default")
    with pytest.raises(TypeError):
        rows.delete_range(lo, b"b")
    assert not rows.staged()


def test_a_child_process_is_refused(tmp_path):
    rows = StagedNamespace(Staging(-1), database(tmp_path), "default")
    rows.put(b"a", b"1")
    assert in_a_child(lambda: rows.get(b"a")) == ForkedHandleError.__name__
    assert in_a_child(lambda: rows.put(b"b", b"1")) == ForkedHandleError.__name__
    assert rows.get(b"a") == b"1"


# Spills, seen from a state directory.

PLAIN = stores.key_value("s")


def test_staged_bytes_over_the_budget_are_written_without_offsets(home):
    state = home.open(uncommitted_max_bytes=100)
    store = state.open(PLAIN)
    store.put(b"k0", b"first")
    state.commit({("t", 0): 0})
    for number in range(1, 10):
        store.put(b"k%d" % number, b"x" * 30)
        assert state.staged_bytes <= 100
        assert [key for key, _ in store.all()] == [b"k%d" % n for n in range(number + 1)]
    state.close()  # as a crash would: without a commit
    with home.open() as state:
        store = state.open(PLAIN)
        assert state.offsets() == store.offsets() == {("t", 0): 0}
        assert len(list(store.all())) > 1


def test_a_scan_that_is_open_does_not_notice_a_spill(home):
    with home.open(uncommitted_max_bytes=100) as state:
        store = state.open(PLAIN)
        store.put(b"a", b"1")
        scan = store.all()
        for number in range(50):
            store.put(b"b%d" % number, b"x" * 30)
        store.delete(b"a")
        assert list(scan) == [(b"a", b"1")]


def test_a_spill_keeps_deletes_and_ranges(home):
    spec = stores.versioned_key_value("v", 10, 10)
    with home.open() as state:
        store = state.open(spec)
        for timestamp in range(0, 100, 10):
            store.put(b"k", b"%d" % timestamp, timestamp=timestamp)
        state._staging.spill()
        assert state.staged_bytes == 0
        kept = [record.timestamp for record in store.history(b"k")]
        store.put(b"k", b"late", timestamp=300)
        state._staging.spill()
        # The version of 90 ended at 300, within the history; the others ended before it.
        assert [record.timestamp for record in store.history(b"k")] == [90, 300]
    assert kept[-1] == 90


def test_a_spill_remembers_stream_time(home):
    state = home.open(uncommitted_max_bytes=0)
    store = state.open(stores.versioned_key_value("v", 100, 10))
    store.put(b"a", b"1", timestamp=500)
    store.put(b"b", b"1", timestamp=700)
    state.close()
    with home.open() as state:
        store = state.open(stores.versioned_key_value("v", 100, 10))
        assert store.stream_time in (500, 700)
        assert store.get(b"a").value == b"1"


def test_spilled_rows_are_bound_to_their_spec(home):
    """Rows in the store without a spec could be read with other segments than they lie in."""
    state = home.open(uncommitted_max_bytes=0)
    store = state.open(stores.versioned_key_value("v", 100, 10))
    for timestamp in range(50):
        store.put(b"a", b"1", timestamp=timestamp)
    state.close()
    with home.open() as state:
        state.open(stores.versioned_key_value("v", 100, 10))
        assert state.stored_spec("v").segment_interval_ms == 10


def test_one_row_beyond_the_budget_is_staged_alone(home):
    with home.open(uncommitted_max_bytes=10) as state:
        store = state.open(PLAIN)
        store.put(b"big", b"x" * 1000)
        assert store.get(b"big") == b"x" * 1000
        store.put(b"next", b"1")
        assert list(store.all()) == [(b"big", b"x" * 1000), (b"next", b"1")]


def test_no_budget_means_no_spill(home):
    with home.open(uncommitted_max_bytes=-1) as state:
        store = state.open(PLAIN)
        for number in range(1000):
            store.put(b"%d" % number, b"x" * 100)
        assert state.staged_bytes == sum(len(b"%d" % n) + 100 for n in range(1000))
        assert state._staging.spills == 0


# Transactions.


def test_a_transaction_refuses_what_exceeds_its_limit_and_goes_on_after_a_commit(home):
    with home.open(transactional=True, uncommitted_max_bytes=100) as state:
        store = state.open(PLAIN)
        store.put(b"a", b"x" * 60)
        with pytest.raises(UncommittedLimitError, match="uncommitted_max_bytes=100"):
            store.put(b"b", b"x" * 60)
        assert store.get(b"b") is None
        assert state.staged_bytes == 61
        state.commit({("t", 0): 1})
        store.put(b"b", b"x" * 60)
        state.commit({("t", 0): 2})
        assert [key for key, _ in store.all()] == [b"a", b"b"]


def test_a_transaction_may_always_shrink(home):
    with home.open(transactional=True, uncommitted_max_bytes=50) as state:
        store = state.open(PLAIN)
        store.put(b"a", b"x" * 49)
        store.put(b"a", b"y" * 10)
        assert state.staged_bytes == 11
        store.put(b"a", b"z" * 49)
        assert store.get(b"a") == b"z" * 49


def test_nobody_else_sees_a_transaction_before_its_commit(home):
    with home.open(transactional=True) as state:
        store = state.open(PLAIN)
        state.commit()
        store.put(b"a", b"1")
        with home.open(read_only=True) as reader:
            assert list(reader.open(PLAIN).all()) == []
        state.commit()
        with home.open(read_only=True) as reader:
            assert list(reader.open(PLAIN).all()) == [(b"a", b"1")]


def test_a_refused_versioned_put_leaves_nothing_behind(home):
    spec = stores.versioned_key_value("v", 1000, 10)
    with home.open(transactional=True, uncommitted_max_bytes=100) as state:
        store = state.open(spec)
        store.put(b"k", b"v" * 60, timestamp=5)
        state.commit()
        before = store.history(b"k"), store.stream_time
        with pytest.raises(UncommittedLimitError):
            store.put(b"k", b"w" * 60, timestamp=50)
        assert (store.history(b"k"), store.stream_time) == before
        assert state.staged_bytes == 0


def test_a_refused_put_all_leaves_nothing_behind(home):
    with home.open(transactional=True, uncommitted_max_bytes=100) as state:
        store = state.open(PLAIN)
        with pytest.raises(UncommittedLimitError):
            store.put_all([(b"%d" % number, b"x" * 20) for number in range(10)])
        assert list(store.all()) == []
        assert state.staged_bytes == 0


def test_a_put_all_counts_what_it_leaves_staged(home):
    with home.open(transactional=True, uncommitted_max_bytes=100) as state:
        store = state.open(PLAIN)
        store.put(b"big", b"x" * 80)
        store.put_all([(b"big", None), *[(b"k", b"x" * 80)] * 5])
        assert state.staged_bytes == 3 + 81


def test_a_transaction_writes_no_row_to_disk_before_its_commit(tmp_path):
    with open_state(tmp_path, engine="rocksdb", transactional=True) as state:
        store = state.open(PLAIN)
        state.commit()
        log = max((tmp_path / "rocksdb" / "s").glob("*.log"))
        size = log.stat().st_size
        store.put(b"a", b"x" * 5000)
        assert log.stat().st_size == size
        state.commit()
        assert log.stat().st_size > size + 5000


def test_rows_hold_what_a_commit_writes():
    assert not Rows()
    assert Rows([b"a"], [None])
    assert Rows(deleted_ranges=[(b"a", None)])


def test_a_key_that_the_engine_cannot_take_is_refused_before_it_is_staged(tmp_path):
    staging = Staging(-1, max_key_bytes=3, empty_keys=False)
    rows = StagedNamespace(staging, database(tmp_path), "default")
    rows.put(b"abc", b"v")
    with pytest.raises(KeyTooLongError, match=r"has 4 bytes.* at most 3,"):
        rows.put(b"abcd", b"v")
    with pytest.raises(KeyTooLongError, match=r"has 4 bytes.* at most 3,"):
        rows.put_many({b"a": b"v", b"abcd": b"v"})
    with pytest.raises(KeyTooLongError, match=r"has 4 bytes.* at most 3,"):
        rows.put_columns([b"a", b"abcd"], [b"v", b"v"])
    with pytest.raises(ValueError, match="2 keys but 1 values"):
        rows.put_columns([b"a", b"ab"], [b"v"])
    with pytest.raises(UnsupportedError, match="cannot store an empty key"):
        rows.put(b"", b"v")
    assert rows.staged().keys == [b"abc"]
    assert rows.get(b"abcd") is None


def test_what_was_closed_is_not_taken():
    """A commit of another thread would write its offsets without the rows."""
    namespace = StagedNamespace(Staging(-1), database("."), "default")
    namespace.put(b"a", b"1")
    namespace.close()
    with pytest.raises(StoreClosedError):
        take((namespace,))

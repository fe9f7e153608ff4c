"""Engines that fail, directories that vanish, forks, and SIGKILL."""

import contextlib
import shutil
import signal
import subprocess
import sys
from functools import partial

import pytest

from kstore_core import open_state, stores
from kstore_core.errors import ForkedHandleError, KStoreError, StorageFullError
from kstore_memory import MemoryEngine
from tests.typed.processes import in_a_child

PLAIN = stores.key_value("s")
OTHER = stores.key_value("other")
RATES = stores.versioned_key_value("rates", 1000)


def items(home, spec=PLAIN):
    with home.open(read_only=True) as state:
        return list(state.open(spec).all())


# Failing.


class Watched(MemoryEngine):
    """Calls `write` for each batch, with the name of the store and the call that writes it."""

    def open(self, root, store, **arguments):
        database = super().open(root, store, **arguments)
        write = database.write
        database.write = lambda batch: self.write(store, partial(write, batch))
        return database


class Faulty(Watched):
    """Raises what it was told to, once, when the store of that name is written to."""

    def __init__(self):
        super().__init__()
        self.faults = {}

    def write(self, store, really):
        error = self.faults.pop(store, None)
        if error is not None:
            raise error
        really()


def test_a_commit_that_fails_keeps_everything_for_the_next():
    engine = Faulty()
    with open_state("x", engine=engine) as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        with state.record(topic="t", partition=0, offset=7):
            store.put(b"k", b"v")
            rates.put(b"k", b"v", timestamp=5)
        staged = state.staged_bytes
        engine.faults["s"] = StorageFullError("disk full")
        with pytest.raises(StorageFullError):
            state.commit({("t", 0): 7})
        assert state.staged_bytes == staged
        assert store.offsets() == {}
        assert store.get(b"k") == b"v"
        state.commit({("t", 0): 7})
        assert state.staged_bytes == 0
        assert state.offsets() == {("t", 0): 7}
    with open_state("x", engine=engine) as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        assert store.get(b"k") == b"v"
        assert rates.get(b"k").timestamp == rates.stream_time == 5
        assert store.position == rates.position == {"t": {0: 7}}
        assert state.stored_spec("s").describes(PLAIN)


def test_where_one_of_two_stores_fails_offsets_are_those_of_the_one_behind():
    engine = Faulty()
    with open_state("x", engine=engine) as state:
        first, second = state.open(PLAIN), state.open(OTHER)
        state.commit({("t", 0): 1})
        first.put(b"k", b"v")
        second.put(b"k", b"v")
        engine.faults["other"] = StorageFullError("disk full")
        with pytest.raises(StorageFullError):
            state.commit({("t", 0): 2})
        assert state.offsets() == {("t", 0): 1}
        assert second.get(b"k") == b"v"
    with open_state("x", engine=engine) as state:
        assert state.open(OTHER).get(b"k") == b"v"  # leaving the block committed it


def test_a_spill_that_fails_makes_no_put_and_loses_nothing():
    engine = Faulty()
    with open_state("x", engine=engine, uncommitted_max_bytes=10) as state:
        store = state.open(PLAIN)
        store.put(b"a", b"12345678")
        engine.faults["s"] = StorageFullError("disk full")
        with pytest.raises(StorageFullError):
            store.put(b"b", b"12345678")
        assert store.get(b"b") is None
        assert state.staged_bytes == 9
        store.put(b"b", b"12345678")
        assert list(store.all()) == [(b"a", b"12345678"), (b"b", b"12345678")]


def test_a_commit_that_fails_on_leaving_still_closes():
    engine = Faulty()

    def fail():
        with open_state("x", engine=engine) as state:
            state.open(PLAIN).put(b"k", b"v")
            engine.faults["s"] = StorageFullError("disk full")

    with pytest.raises(StorageFullError):
        fail()
    with open_state("x", engine=engine) as state:
        assert state.open(PLAIN).get(b"k") is None


def test_a_directory_that_vanishes_gives_an_error_and_closes(tmp_path):
    state = open_state(tmp_path / "0_0", engine="rocksdb")
    store = state.open(PLAIN)
    for number in range(1000):
        store.put(b"%d" % number, b"x" * 100)
    shutil.rmtree(tmp_path / "0_0")
    with contextlib.suppress(KStoreError):
        state.commit()
    with contextlib.suppress(KStoreError):
        state.close()
    state.close()
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        assert list(state.open(PLAIN).all()) == []


FULL_DISK = """
import resource, signal, sys
from kstore_core import open_state, stores
from kstore_core.errors import KStoreError, StorageFullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
state = open_state(sys.argv[1], engine="rocksdb", uncommitted_max_bytes=-1)
store = state.open(stores.key_value("s"))
store.put(b"first", b"1")
state.commit({("t", 0): 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(10_000):
    store.put(b"%d" % number, b"x" * 100)
try:
    state.commit({("t", 0): 2})
except StorageFullError as error:
    print(type(error).__name__, state.offsets(), len(list(store.all())))
if sys.argv[2] == "room again":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    state.commit({("t", 0): 2})
    print(state.offsets(), len(list(store.all())))
try:
    state.close()
except KStoreError as error:
    print(type(error).__name__)
"""


def test_a_full_disk_is_an_error_that_loses_nothing_committed(tmp_path):
    """The limit on the size of a file stands for a disk that is full."""
    assert fill_the_disk(tmp_path, "for good").startswith("StorageFullError {('t', 0): 1} 10001")
    with open_state(tmp_path) as state:
        assert list(state.open(PLAIN).all()) == [(b"first", b"1")]
        assert state.offsets() == {("t", 0): 1}
        state.open(PLAIN).put(b"second", b"2")


def test_where_there_is_room_again_a_later_commit_writes_what_stayed_staged(tmp_path):
    first, second = fill_the_disk(tmp_path, "room again").splitlines()
    assert first == "StorageFullError {('t', 0): 1} 10001"
    assert second == "{('t', 0): 2} 10001"
    with open_state(tmp_path) as state:
        assert len(list(state.open(PLAIN).all())) == 10_001
        assert state.offsets() == {("t", 0): 2}


def fill_the_disk(path, then):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), then],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Interrupted(Watched):
    """Calls back, once, when a batch has been written: what another thread might do just then."""

    def __init__(self):
        super().__init__()
        self.meanwhile = None

    def write(self, _, really):
        meanwhile, self.meanwhile = self.meanwhile, None
        really()
        if meanwhile is not None:
            meanwhile()


def test_what_is_put_while_a_commit_is_written_is_part_of_the_next():
    engine = Interrupted()
    with open_state("x", engine=engine) as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        with state.record(topic="t", partition=0, offset=1):
            store.put(b"k", b"first")
            store.put(b"l", b"first")
            rates.put(b"k", b"first", timestamp=10)

        def meanwhile():
            with state.record(topic="t", partition=0, offset=2):
                store.put(b"k", b"second")
                rates.put(b"k", b"second", timestamp=20)

        engine.meanwhile = meanwhile
        state.commit({("t", 0): 1})
        assert store.get(b"k") == b"second"
        assert state.staged_bytes > 0
    with open_state("x", engine=engine) as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        assert list(store.all()) == [(b"k", b"second"), (b"l", b"first")]
        assert rates.get(b"k").timestamp == rates.stream_time == 20
        assert store.position == rates.position == {"t": {0: 2}}


# Forking and being killed.


def test_a_fork_may_use_nothing_but_may_leave(home):
    with home.open() as state:
        store, rates = state.open(PLAIN), state.open(RATES)
        store.put(b"committed", b"v")
        state.commit()
        store.put(b"staged", b"v")
        scan = store.all()
        for use in (
            lambda: store.get(b"committed"),
            lambda: store.get(b"staged"),
            lambda: store.put(b"k", b"v"),
            lambda: store.delete(b"k"),
            lambda: store.get_many([b"k"]),
            lambda: list(store.all()),
            lambda: next(scan),
            lambda: store.approximate_num_entries(),
            lambda: rates.put(b"k", b"v", timestamp=1),
            lambda: rates.get(b"k", as_of=1),
            lambda: state.open(OTHER),
            lambda: state.commit(),
            lambda: state.offsets(),
            lambda: state.record().__enter__(),
        ):
            assert in_a_child(use) == ForkedHandleError.__name__
        assert in_a_child(state.close) == "None"
        assert in_a_child(lambda: state.__exit__(None, None, None)) == "None"
        assert in_a_child(lambda: state.__exit__(SystemExit, SystemExit(), None)) == "None"
        assert list(scan) == [(b"committed", b"v"), (b"staged", b"v")]
    assert items(home) == [(b"committed", b"v"), (b"staged", b"v")]


WRITER = """
import sys
from kstore_core import open_state, stores
path, budget, durability = sys.argv[1:]
with open_state(
    path, engine="rocksdb", uncommitted_max_bytes=int(budget), durability=durability
) as state:
    store = state.open(stores.key_value("s"))
    rates = state.open(stores.versioned_key_value("rates", 10**6))
    start = state.offsets().get(("t", 0), 0) + 1
    for commit in range(start, start + 10**6):
        with state.record(topic="t", partition=0, offset=commit):
            for row in range(20):
                store.put(b"%d" % row, b"%d" % commit)
            rates.put(b"k", b"%d" % commit, timestamp=commit)
        state.commit({("t", 0): commit})
        print(commit, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("budget", [-1, 100], ids=["staged", "spilling"])
def test_after_sigkill_the_store_is_that_of_the_last_commit(tmp_path, budget):
    for round_number in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(budget), "process"],
            stdout=subprocess.PIPE,
        )
        printed = [int(process.stdout.readline()) for _ in range(5 + 17 * round_number)]
        process.send_signal(signal.SIGKILL)
        printed += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        process.stdout.close()
        with open_state(tmp_path) as state:
            store = state.open(PLAIN)
            rates = state.open(stores.versioned_key_value("rates", 10**6))
            committed = store.offsets()["t", 0]
            assert committed in (printed[-1], printed[-1] + 1)
            assert rates.offsets()["t", 0] in (printed[-1], printed[-1] + 1)
            assert store.position == {"t": {0: committed}}
            values = {int(value) for _, value in store.all()}
            if budget < 0:
                assert values == {committed}
                assert rates.get(b"k").timestamp == rates.offsets()["t", 0]
            else:  # data may run ahead of the offsets, never behind
                assert values <= {committed, committed + 1}
                assert rates.get(b"k").timestamp >= rates.offsets()["t", 0]


@pytest.mark.slow
def test_after_sigkill_kafkas_own_level_has_lost_a_tail_at_most(tmp_path):
    """Without a write-ahead log: an older commit, whole, with its own offsets."""
    for lines in (3, 40, 150):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), "-1", "changelog"],
            stdout=subprocess.PIPE,
        )
        printed = [int(process.stdout.readline()) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        printed += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        process.stdout.close()
        with open_state(tmp_path, durability="changelog") as state:
            store = state.open(PLAIN)
            rates = state.open(stores.versioned_key_value("rates", 10**6))
            committed = store.offsets().get(("t", 0), 0)
            assert committed <= printed[-1] + 1
            assert {int(value) for _, value in store.all()} == ({committed} if committed else set())
            version = rates.get(b"k")
            assert rates.offsets().get(("t", 0), 0) == (version.timestamp if version else 0)

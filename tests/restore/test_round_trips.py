"""What a store holds is what its changelog restores, however the log is cut."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.changelog import FileChangelog, changelog_topic
from kstore_core.errors import EngineError, FormatError, InconsistentStateError, SpecError
from kstore_core.restore import spool
from kstore_core.restore import versions as restore_versions
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import KINDS, LAYERED, VERSIONED, Kind
from kstore_core.testing.running import quick
from tests.restore.batches import small_batches
from tests.restore.stores import APPLICATION, Op, contents, logs, open_log, spec_of, write
from tests.restore.strategies import OPS
from tests.support.engines import ENGINES

pytestmark = pytest.mark.usefixtures("left_sound")


@contextmanager
def scratch() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="kstore-test-"))
    try:
        yield root
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
@quick(30)
@given(commits=st.lists(OPS, max_size=6), size=st.sampled_from([10, 40, 10**6]))
def test_a_restored_store_is_the_store(kind: Kind, commits: list[list[Op]], size: int) -> None:
    with scratch() as root, small_batches(size):
        spec = spec_of(kind)
        with open_state(root / "0_0", engine="memory", changelog=logs(root / "logs")) as state:
            store = state.open(spec)
            for ops in commits:
                write(kind, store, ops)
                state.commit({("in", 0): 1})
            wanted = contents(kind, store)
            offsets = store.offsets()
        with open_state(root / "new", engine="memory", changelog=logs(root / "logs")) as state:
            store = state.open(spec)
            assert contents(kind, store) == wanted
            assert store.offsets() == offsets


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
@quick(25)
@given(commits=st.lists(OPS, min_size=1, max_size=6), size=st.sampled_from([1, 60, 10**6]))
def test_a_restore_goes_on_where_the_log_has_grown(
    kind: Kind, commits: list[list[Op]], size: int
) -> None:
    """A standby: it follows the log from commit to commit, and is at each what the store is."""
    spec = spec_of(kind)
    with (
        scratch() as root,
        small_batches(size),
        open_state(root / "0_0", engine="memory", changelog=logs(root / "logs")) as state,
        open_state(root / "standby", engine="memory") as standby,
    ):
        store = state.open(spec)
        for ops in commits:
            write(kind, store, ops)
            state.commit()
            with open_log(root / "logs") as log:
                standby.restore(spec, log)
            assert contents(kind, standby.open(spec)) == contents(kind, store)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@quick(25)
@given(ops=OPS, again=st.integers(-1, 30))
def test_what_is_restored_twice_is_the_same(kind: Kind, ops: list[Op], again: int) -> None:
    """Offsets that are behind the rows do no harm, whatever was restored beyond them."""
    with scratch() as root:
        spec = spec_of(kind)
        with open_state(root / "0_0", engine="memory", changelog=logs(root / "logs")) as state:
            write(kind, state.open(spec), ops)
        with open_log(root / "logs") as log, open_state(root / "new", engine="memory") as state:
            state.restore(spec, log)
            store = state.open(spec)
            wanted = contents(kind, store)
            where = (log.topic, 0)
            last = min(again, log.high_watermark - 1)
            state.commit({where: last if last >= 0 else None})
            state.restore(spec, log)
            assert contents(kind, store) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
def test_on_every_engine(kind: Kind, engine: str, tmp_path: Path) -> None:
    spec = spec_of(kind)
    ops: list[Op] = [
        (b"k%d" % (number % 11), None if number % 7 == 3 else b"%d" % number, number // 4, [])
        for number in range(400)
    ]
    with open_state(tmp_path / "0_0", engine=engine, changelog=logs(tmp_path / "logs")) as state:
        store = state.open(spec)
        write(kind, store, ops[:200])
        state.commit()
        write(kind, store, ops[200:])
        state.commit()
        wanted = contents(kind, store)
    told: list[Any] = []
    with (
        small_batches(500),
        open_state(
            tmp_path / "new",
            engine=engine,
            changelog=logs(tmp_path / "logs"),
            on_restore=told.append,
        ) as state,
    ):
        assert contents(kind, state.open(spec)) == wanted
    assert (told[0].next_offset, told[0].records) == (0, 0)
    assert told[-1].next_offset == told[-1].end
    told.clear()
    with open_state(
        tmp_path / "0_0", engine=engine, changelog=logs(tmp_path / "logs"), on_restore=told.append
    ) as state:
        if engine != "memory":
            assert told == []  # nothing to restore
            assert contents(kind, state.open(spec)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_the_log_is_ahead_by_is_restored(
    kind: Kind, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the log's commit and that of the rows."""
    spec = spec_of(kind)
    ops: list[Op] = [(b"k%d" % (n % 5), b"%d" % n, n, [("h", b"1")]) for n in range(40)]
    root = tmp_path / "0_0"
    with open_state(root, engine=engine, changelog=logs(tmp_path / "logs")) as state:
        store = state.open(spec)
        write(kind, store, ops[:20])
        state.commit({("in", 0): 19})
        write(kind, store, ops[20:])
        wanted = contents(kind, store)
        monkeypatch.setattr(type(state._stores["s"]._storage), "write", _fail)
        with pytest.raises(EngineError, match="power"):
            state.commit({("in", 0): 39})
        state.close()
    monkeypatch.undo()
    with open_state(root, engine=engine) as state:
        store = state.open(spec)
        assert contents(kind, store) != wanted
    with open_state(root, engine=engine, changelog=logs(tmp_path / "logs")) as state:
        store = state.open(spec)
        assert contents(kind, store) == wanted
        assert store.offsets() == {("in", 0): 39, (changelog_topic(APPLICATION, "s"), 0): 43}


def _fail(*_: object, **__: object) -> None:
    raise EngineError("the power is gone")


@pytest.mark.parametrize("headers", [False, True])
def test_a_plain_store_becomes_versioned_by_way_of_its_log(tmp_path: Path, headers: bool) -> None:
    """KIP-889's manual procedure: a versioned store with the changelog of a key-value store."""
    plain = stores.timestamped_key_value_with_headers("s") if headers else stores.key_value("s")
    made = stores.versioned_key_value_with_headers if headers else stores.versioned_key_value
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path / "logs")) as state:
        store = state.open(plain)
        for time, value in ((1000, b"a"), (2000, None), (3000, b"b"), (2500, b"c")):
            pairs = [("h", b"%d" % time)]
            with state.record(topic="in", partition=0, offset=time, timestamp=time, headers=pairs):
                if value is None:
                    store.delete(b"k")
                elif headers:
                    store.put(b"k", value, timestamp=time, headers=pairs)
                else:
                    store.put(b"k", value)
        state.commit()
    shutil.move(tmp_path / "0_0", tmp_path / "old")
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs(tmp_path / "logs")) as state:
        store = state.open(made("s", 86_400_000))
        found = [(r.value, r.timestamp, r.valid_to) for r in store.history(b"k")]
        assert found == [(b"a", 1000, 2000), (b"c", 2500, 3000), (b"b", 3000, None)]
        if headers:
            assert list(store.get(b"k", as_of=2600).headers) == [("h", b"2500")]


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        (stores.window("s", 1000, 10), "window"),
        (stores.window("s", 1000, 10, time_ordered=True), "window"),
        (stores.session("s", 1000), "session"),
    ],
    ids=["window", "time-ordered", "session"],
)
def test_a_record_of_another_store_is_refused_by_its_log_and_offset(
    tmp_path: Path, spec: StoreSpec, shape: str
) -> None:
    with FileChangelog(tmp_path / "logs", "app-s-changelog") as log:
        log.append(bytes(24), b"a key of either", 1)
        log.append(b"k0", b"v", 1)
        log.append(b"a", b"v", 1)
    with (
        open_log(tmp_path / "logs") as log,
        open_state(tmp_path / "n", engine="memory") as state,
        pytest.raises(FormatError) as raised,
    ):
        state.restore(spec, log)
    assert str(raised.value).startswith(
        f"the changelog {log.topic}-{log.partition} has a record that cannot belong to the "
        f"{shape} store 's': offset 1: 6b30 is not the key of a {shape} store"
    )
    assert "Restore the store from its own log" in str(raised.value)


def test_records_without_a_time_cannot_become_versions(tmp_path: Path) -> None:
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path / "logs")) as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    with (
        open_log(tmp_path / "logs") as log,
        open_state(tmp_path / "n", engine="memory") as state,
        pytest.raises(SpecError, match=r"-1 ms, but .* before 1970"),
    ):
        state.restore(stores.versioned_key_value("s", 1000), log)


@pytest.mark.parametrize("stored", [None, -4])
def test_without_an_offset_all_of_the_log_is_restored(tmp_path: Path, stored: int | None) -> None:
    spec = stores.key_value("s")
    with FileChangelog(tmp_path, "log") as log:
        log.append(b"a", b"1", 5)
        log.append(b"b", None, 6)
        log.commit()
        with open_state(tmp_path / "0_0", engine="rocksdb") as state:
            state.open(spec).put(b"b", b"2")
            state.commit({("log", 0): stored})
        with open_state(tmp_path / "0_0", engine="rocksdb") as state:
            done = state.restore(spec, log)
            assert (done.records, done.late, done.rows) == (2, 0, 2)
            assert list(state.open(spec).all()) == [(b"a", b"1")]
            assert state.offsets("s") == {("log", 0): 1}
            assert state.restore(spec, log).records == 0


class Expired(FileChangelog):
    """A log that has lost what was first."""

    start_offset = 7


def test_a_log_that_does_not_reach_back_is_refused(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    with Expired(tmp_path, "log") as log, open_state(tmp_path / "0_0", engine="memory") as state:
        for number in range(10):
            log.append(b"k%d" % number, b"v", number)
        log.commit()
        state.open(spec)
        state.commit({("log", 0): 5})
        with pytest.raises(InconsistentStateError) as caught:
            state.restore(spec, log)
        assert str(caught.value) == (
            "the store 's' contains the changelog log-0 up to offset 5, but the log begins at "
            "offset 7. The records in between have expired, so the store cannot be brought up to "
            "date. Move the store's directory away and open the store again: kstore then restores "
            "the store from the records that the log has"
        )
        assert list(state.open(spec).all()) == []
        state.commit({("log", 0): 6})
        assert state.restore(spec, log).records == 3
        state.commit({("log", 0): 10})
        with pytest.raises(
            InconsistentStateError, match="up to offset 10, but the last offset of the log is 9"
        ):
            state.restore(spec, log)


@pytest.mark.parametrize("is_spooled", [False, True])
@pytest.mark.parametrize("kind", VERSIONED, ids=str)
def test_each_way_to_restore_versions_is_taken(
    kind: Kind, is_spooled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept by key on disk in between; and put one by one, where Arrow is not installed."""
    ops: list[Op] = [(b"k%d" % (n % 9), b"%d" % n, n // 5, [("h", b"1")]) for n in range(300)]
    spec = spec_of(kind)
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs(tmp_path / "logs")) as state:
        store = state.open(spec)
        for begin in range(0, 300, 20):
            write(kind, store, ops[begin : begin + 20])
            state.commit()
        wanted = contents(kind, store)
    taken: list[str] = []

    class Noting(spool.SpooledParts):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            taken.append("spooled")
            super().__init__(*arguments, **named)

    monkeypatch.setattr(spool, "SpooledParts", Noting)
    if not is_spooled:
        monkeypatch.setattr(restore_versions, "find_spec", lambda _: taken.append("no Arrow"))
    with (
        small_batches(300),
        open_log(tmp_path / "logs") as log,
        open_state(tmp_path / "new", engine="rocksdb") as state,
    ):
        state.restore(spec, log)
        assert contents(kind, state.open(spec)) == wanted
    assert set(taken) == {"spooled" if is_spooled else "no Arrow"}

"""What is refused, what fails on the way, and stores that are out of the ordinary."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace

import pytest

from kstore_core import ValueAndTimestamp, errors, open_state, stores
from kstore_core.codec import window_key
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.formats import ORDERED_TIMESTAMPED, PLAIN, TIMESTAMPED, VERSIONED
from kstore_core.maintenance.migrate import contents, copying, drop_old, migrate, work
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.maintenance.migrate.converting import Converter
from kstore_core.state.migration_note import places, read_plan
from kstore_core.tables import Layer, Write
from kstore_core.testing.kinds import KINDS
from tests.restore.stores import contents as answers
from tests.restore.stores import spec_of

pytestmark = pytest.mark.usefixtures("left_sound")

SPEC = stores.timestamped_key_value("s")
RECORD = ValueAndTimestamp(b"v", 7)


@pytest.fixture
def root(tmp_path):
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(SPEC).put_all((b"%d" % n, RECORD) for n in range(10))
        state.open(stores.key_value("other")).put(b"k", b"v")
    return tmp_path / "0_0"


def untouched(root):
    with open_state(root) as state:
        assert len(list(state.open(SPEC).all())) == 10
    return not places(root).home.exists()


def stop_at(step):
    def listen(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        (
            {"to": "versioned"},
            errors.SpecError,
            "a key-value store cannot have the format versioned",
        ),
        ({"to": VERSIONED}, errors.SpecError, "cannot have the format"),
        ({"to": SPEC}, errors.SpecError, "must be the name of a format"),
        ({"to": "plain", "from_log": object()}, errors.SpecError, "Pass the spec"),
        ({"engine": "rocksdb", "from_log": object()}, errors.SpecError, "Pass the spec"),
        (
            {"to": stores.versioned_key_value("t", 10), "from_log": object()},
            errors.SpecError,
            "turns the store 's' into a versioned store",
        ),
        ({"engine": "memory"}, errors.UnsupportedError, "stores nothing on disk"),
        ({"engine": "lmdb"}, errors.StateError, "other stores: other"),
        (
            {"to": "plain", "spec": stores.window("s", 10, 1)},
            errors.SpecError,
            "is a key_value store",
        ),
        ({}, errors.SpecError, "no migration of the store 's' that could be"),
    ],
)
def test_what_is_refused_changes_nothing(root, how, error, said):
    with pytest.raises(error, match=said):
        migrate(root, "s", **how)
    assert untouched(root)


def test_no_such_directory_and_no_such_store(root, tmp_path):
    for call in (lambda path: migrate(path, "s", to="plain"), lambda path: drop_old(path, "s")):
        with pytest.raises(errors.StateError, match="no state directory"):
            call(tmp_path / "missing")
    with pytest.raises(errors.StateError, match="has no store 'no'; it has: other, s"):
        migrate(root, "no", to="plain")


def test_who_writes_to_it_keeps_a_migration_out(root):
    with open_state(root), pytest.raises(errors.EngineLockedError):
        migrate(root, "s", to="plain", lossy=True)
    database = make_engine("rocksdb").open(root, "s")  # as Kafka Streams would, without our lock
    with pytest.raises(errors.EngineLockedError):
        migrate(root, "s", to="plain", lossy=True)
    database.close()
    assert untouched(root)


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (Write(b"3", b"w"), "at or after the key b'0'"),
        (Write(b"99", b"w"), "by additional rows"),
        (Write(b"9", None), "at or after the key b'9'"),
    ],
)
def test_a_copy_that_is_not_one_is_not_put_in_place(root, monkeypatch, write, where):
    def spoilt(source, target, say):
        done = copying.copy(source, target, say)
        with opened(*target, writable=True) as new:
            new._table.write([write])
            new.write(contents.Entries(spec=target.spec))
        return done

    monkeypatch.setattr(work, "copy", spoilt)
    with pytest.raises(errors.CorruptionError, match=where):
        migrate(root, "s", to="plain", lossy=True)
    assert untouched(root)


@pytest.mark.unsound
def test_a_row_that_is_not_of_its_format(root):
    with opened(make_engine("rocksdb"), root, SPEC, writable=True) as contents_of:
        contents_of._table.write([Write(b"short", b"\0\0\0")])
        contents_of.write(contents.Entries(spec=SPEC))
    with pytest.raises(errors.FormatError, match="the row of key b'short' cannot be converted"):
        migrate(root, "s", to="plain", lossy=True)
    with pytest.raises(errors.FormatError, match="the row of key b'short' cannot be upgraded"):
        migrate(root, "s", to="headers")
    assert not places(root).home.exists()


def test_a_key_that_the_engine_cannot_hold(root):
    with open_state(root) as state:
        state.open(stores.key_value("other")).put(b"k" * 600, b"v")
    with pytest.raises(errors.KeyTooLongError):
        migrate(root, "s", engine="lmdb", every_store=True)
    assert untouched(root)


def test_between_the_renames_only_the_store_that_moves_is_shut(root):
    with pytest.raises(KeyboardInterrupt):
        migrate(root, "s", to="plain", lossy=True, on_progress=stop_at("put in place"))
    with open_state(root) as state:
        assert state.stores() == ["other", "s"]
        assert state.open(stores.key_value("other")).get(b"k") == b"v"
        for call in (
            lambda: state.open(SPEC),
            lambda: state.open(stores.key_value("s")),
            lambda: state.offsets(),
            lambda: state.stored_spec("s"),
        ):
            with pytest.raises(errors.InconsistentStateError, match=f"kstore migrate {root} s"):
                call()
    with pytest.raises(errors.StateError, match=r"is unfinished\. Before you"):
        drop_old(root, "s")
    with pytest.raises(errors.StateError, match="are still in"):
        migrate(root, "s", to="headers")  # finishes it first
    (done,) = migrate(root, "s", to="headers", drop_old=True)
    assert (done.before.name, done.after.name) == ("plain", "timestamped_headers")


def test_between_the_renames_to_another_engine_all_stores_are_shut(root):
    asked = {"engine": "lmdb", "every_store": True}
    with pytest.raises(KeyboardInterrupt):
        migrate(root, "s", **asked, on_progress=stop_at("record"))
    for read_only in (True, False):
        with open_state(root, read_only=read_only) as state:
            for spec in (SPEC, stores.key_value("other"), stores.key_value("new")):
                with pytest.raises(errors.InconsistentStateError, match="kstore migrate"):
                    state.open(spec)
    assert [one.store for one in migrate(root, "s", **asked)] == ["s", "other"]
    with open_state(root) as state:
        assert state.engine.name == "lmdb"
        assert len(list(state.open(SPEC).all())) == 10


def test_what_somebody_else_has_made_in_the_place_is_left_there(root):
    with pytest.raises(KeyboardInterrupt):
        migrate(root, "s", to="plain", lossy=True, on_progress=stop_at("put in place"))
    made = root / "rocksdb" / "s"
    made.mkdir()
    with pytest.raises(errors.StateError, match=r"a program has made .* since"):
        migrate(root, "s")
    assert read_plan(root) is not None
    made.rename(root.parent / "away")
    migrate(root, "s")
    with open_state(root) as state:
        assert len(list(state.open(stores.key_value("s")).all())) == 10


def test_an_interrupted_copy_is_taken_away_and_one_that_was_killed_begun_again(root, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        migrate(root, "s", to="plain", lossy=True, on_progress=stop_at("verify"))
    assert untouched(root)
    left = places(root).new / "rocksdb" / "s"
    left.mkdir(parents=True)
    (left / "CURRENT").write_text("nonsense")
    migrate(root, "s", to="plain", lossy=True)
    assert places(root).old.exists()
    assert not places(root).new.exists()


@pytest.mark.slow
def test_empty_stores(tmp_path):
    for number, kind in enumerate(KINDS):
        engine, other = [("lmdb", "rocksdb"), ("rocksdb", "lmdb")][number % 2]
        root = tmp_path / str(number)
        with open_state(root, engine=engine) as state:
            state.open(spec_of(kind))
        migrate(root, "s", engine=other)
        with open_state(root) as state:
            assert answers(kind, state.open(spec_of(kind)))[0] in (-1, None)
            assert state.stored_spec("s").describes(spec_of(kind))


def test_duplicates_keep_their_numbers(tmp_path):
    spec = stores.window("s", 1000, 10, retain_duplicates=True)
    with open_state(tmp_path, engine="rocksdb") as state:
        for data in (b"1", b"2", b"3"):
            state.open(spec).put(b"k", data, window_start=5)
    migrate(tmp_path, "s", engine="lmdb")
    with open_state(tmp_path) as state:
        store = state.open(spec)
        store.put(b"k", b"4", window_start=5)
        assert [value for _, value in store.fetch(b"k", 0, 9)] == [b"1", b"2", b"3", b"4"]


def test_rows_are_loaded_some_at_a_time(root, monkeypatch):
    monkeypatch.setattr(contents, "LOAD_BYTES", 20)
    sizes = []
    loads = contents._some

    def counted(first, rest):
        for keys, values in loads(first, rest):
            sizes.append(len(keys))
            yield keys, values

    monkeypatch.setattr(contents, "_some", counted)
    with open_state(root) as state:
        state.open(SPEC).put_all((b"%04d" % n, RECORD) for n in range(3000))
    (done,) = migrate(root, "s", to="plain", lossy=True)
    assert done.rows == 3010 == sum(sizes)
    assert len(sizes) > 3


def test_rows_go_through_the_layers_of_plug_ins(root, monkeypatch):
    class Turned(Layer):
        """Every value is stored backwards."""

        def get(self, key):
            value = self.below.get(key)
            return None if value is None else value[::-1]

        def scan(self, bounds):
            for keys, values in self.below.scan(bounds):
                yield keys, [value[::-1] for value in values]

        def write(self, writes):
            self.below.write(
                Write(key, value and value[::-1], context) for key, value, context in writes
            )

    for module in ("kstore_core.state.store_layers", "kstore_core.maintenance.migrate.contents"):
        monkeypatch.setattr(f"{module}.wrap_table", lambda table, spec: Turned(table))
    with open_state(root) as state:
        state.open(stores.key_value("turned")).put_all((b"%03d" % n, b"abc") for n in range(900))
    migrate(root, "turned", to="timestamped")
    with open_state(root) as state:
        store = state.open(stores.timestamped_key_value("turned"))
        assert {(value.value, value.timestamp) for _, value in store.all()} == {(b"abc", -1)}
        assert len(list(store.all())) == 900
    monkeypatch.undo()
    with open_state(root) as state:
        raw = state.open(stores.timestamped_key_value("turned")).table.get(b"000")
        assert raw == b"cba" + b"\xff" * 8


def test_what_keeps_no_spec_has_to_be_described(tmp_path):
    spec = stores.timestamped_window(
        "s", 1000, 10, segment_interval_ms=100, time_ordered=True, indexed=True
    )
    with open_state(tmp_path, engine="rocksdb") as state:
        store = state.open(spec)
        store.put(b"k", RECORD, window_start=5)
    for place in (tmp_path / "s").glob("s.*"):
        database = make_engine("rocksdb").open_directory(place)
        database.write({"offsets": Rows([b"kstore.spec"], [None])})
        database.close()
    with pytest.raises(errors.SpecError, match="has no stored spec"):
        migrate(tmp_path, "s", to="headers")
    migrate(tmp_path, "s", to="headers", spec=replace(spec, indexed=False))
    with open_state(tmp_path) as state:
        assert state.stored_spec("s").indexed
        again = stores.timestamped_window_with_headers(
            "s", 1000, 10, segment_interval_ms=100, time_ordered=True, indexed=True
        )
        (found,) = state.open(again).fetch(b"k", 0, 100)
        assert found[1].timestamp == 7


def test_the_same_engine_with_other_options(tmp_path):
    with open_state(tmp_path, engine="lmdb") as state:
        state.open(SPEC).put(b"k", RECORD)
    longer = make_engine("lmdb", {"format_version": "1.0"})
    with pytest.raises(KeyboardInterrupt):
        migrate(tmp_path, "s", engine=longer, on_progress=stop_at("put in place"))
    (done,) = migrate(tmp_path, "s", engine=longer, drop_old=True)
    assert done.changed
    assert done.old is None
    assert not migrate(tmp_path, "s", engine=longer, options={"format_version": "1.0"})[0].changed
    with open_state(tmp_path, options={"format_version": "1.0"}) as state:
        store = state.open(SPEC)
        store.put(b"k" * 900, RECORD)
        assert [record for _, record in store.all()] == [RECORD] * 2


def test_an_upgrade_that_was_begun_without_a_commit(root):
    state = open_state(root)
    state.open(stores.timestamped_key_value_with_headers("s"))
    state.close()
    (done,) = migrate(root, "s", to="timestamped")
    assert (done.before.name, done.after.name) == ("timestamped_headers", "timestamped")
    assert done.rows == 10
    with open_state(root) as state:
        assert state.open(SPEC).get(b"3") == RECORD


def test_a_full_disk(root, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr("kstore_core.state.migration_note.os.fsync", full)
    with pytest.raises(errors.StorageFullError, match="no space left for the plan of a migration"):
        migrate(root, "s", to="plain", lossy=True)
    monkeypatch.undo()
    migrate(root, "s", to="plain", lossy=True)


def test_plain_rows_by_time_become_timestamped_ones():
    converter = Converter(PLAIN, ORDERED_TIMESTAMPED, "time_ordered_window")
    row, index = b"\0" + window_key(b"k", 5), b"\1" + window_key(b"k", 5)
    assert converter.rows([row, index], [b"v", b""]) == [b"\xff" * 8 + b"v", b""]
    assert not converter.drops
    with pytest.raises(errors.SpecError, match="cannot have the format 'timestamped'"):
        Converter(PLAIN, TIMESTAMPED, "time_ordered_window")


def test_a_set_aside_store_is_a_state_directory(root):
    (done,) = migrate(root, "s", to="plain", lossy=True)
    copied = shutil.copytree(done.old, root.parent / "copied")
    assert untouched(copied)

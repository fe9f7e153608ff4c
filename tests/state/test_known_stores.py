"""The stores of a directory are known before their first commit, so its offsets never change.

Each step of a first commit is a moment at which a process may be killed: the directory is copied
there, which is what a kill would leave.
"""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kstore_core import Windowed, open_state, stores
from kstore_core.cli.app import kstore
from kstore_core.discovery.registry import make_engine
from kstore_core.errors import EngineError, PluginError, SpecError, StateError, StorageFullError
from kstore_core.maintenance.doctor import examine
from kstore_core.maintenance.finish_upgrade.finishing import upgrade
from kstore_core.maintenance.migrate import migrate
from kstore_core.maintenance.verify import verify
from kstore_core.testing import Faults, FaultyEngine
from kstore_rocksdb import RocksDBEngine
from tests.state.processes import lines_of

ORDERS = stores.timestamped_key_value("orders")
RATES = stores.versioned_key_value("rates", 60_000)
CLICKS = stores.window("clicks", 60_000, 1_000, segment_interval_ms=2_000)
VISITS = stores.session("visits", 60_000, segment_interval_ms=2_000)
SETS = {
    "a window behind a key-value store": [ORDERS, CLICKS],
    "a key-value store behind a window": [CLICKS, ORDERS],
    "three": [VISITS, RATES, CLICKS],
}
INPUT = ("o", 0)
FIRST, LAST = 4, 9


def process(state, opened, begin, end):
    """Process the records of the input from one offset to another, and commit."""
    for offset in range(begin, end + 1):
        key, value, time = b"%d" % (offset % 3), b"v%d" % offset, offset * 1_000
        for store in opened:
            if store.spec is ORDERS or store.spec is RATES:
                store.put(key, value, timestamp=time)
            elif store.spec is CLICKS:
                store.put(key, value, window_start=time)
            else:
                store.put(Windowed(key, time, time + 10), value)
    state.commit({INPUT: end})


def rows(state, opened):
    return {
        store.name: list(store.fetch_range(None, None) if store.spec is VISITS else store.all())
        for store in opened
    }


class Camera(Faults):
    """Copies a directory before each call of the engine, while it is told to."""

    def __init__(self, root, folder):
        super().__init__()
        self.root, self.folder = root, folder
        self.on = False
        self.files = None

    def meet(self, operation):
        if self.on:
            self.take()
        return super().meet(operation)

    def take(self):
        """Copy the directory, unless it is as it was at the step before."""
        found = self.root.rglob("[!L]*")  # without LOG and LOCK of RocksDB
        files = {file: file.read_bytes() for file in found if file.is_file()}
        if files != self.files:
            self.files = files
            shutil.copytree(self.root, self.folder / str(len(self.taken)))

    @property
    def taken(self):
        return sorted(self.folder.iterdir(), key=lambda path: int(path.name))


def pictures(tmp_path, engine, specs, **how):
    """The directory at each step of a first commit, and at its end."""
    root, folder = tmp_path / "0_0", tmp_path / "taken"
    folder.mkdir()
    camera = Camera(root, folder)
    with open_state(root, engine=FaultyEngine(make_engine(engine), camera), **how) as state:
        opened = [state.open(spec) for spec in specs]
        camera.on = True
        process(state, opened, 0, FIRST)
        camera.on = False
        camera.take()
    return camera.taken


def offsets_in_another_process(roots):
    code = (
        "import json, sys\n"
        "from kstore_core import open_state\n"
        "for root in json.loads(sys.argv[1]):\n"
        "    with open_state(root, read_only=True) as state:\n"
        "        print(json.dumps([[*at, offset] for at, offset in state.offsets().items()]))\n"
    )
    said = map(json.loads, lines_of(code, [str(root) for root in roots]))
    return [{(topic, number): offset for topic, number, offset in one} for one in said]


def copied(source, target):
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(source, target)


MODES = {
    "staged": {},
    "spilled": {"uncommitted_max_bytes": 60},
    "transactional": {"transactional": True},
    "changelog": {"durability": "changelog"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "mode", "engine"),
    [
        *((kinds, "staged", "rocksdb") for kinds in SETS),
        ("three", "staged", "lmdb"),
        ("a window behind a key-value store", "spilled", "lmdb"),
        ("a window behind a key-value store", "transactional", "lmdb"),
        ("a window behind a key-value store", "changelog", "rocksdb"),
    ],
)
def test_offsets_do_not_depend_on_what_is_open(tmp_path, engine, kinds, mode):
    specs = SETS[kinds]
    taken = pictures(tmp_path, engine, specs, **MODES[mode])
    assert len(taken) >= 3
    whole = tmp_path / "0_0"
    with open_state(whole) as state:
        opened = [state.open(spec) for spec in specs]
        process(state, opened, FIRST + 1, LAST)
        wanted = rows(state, opened)
    seen = set()
    for picture, offsets in zip(taken, offsets_in_another_process(taken), strict=True):
        where = f"{picture.name} of {len(taken)}"
        with open_state(picture, read_only=True) as state:
            assert state.stores() == sorted(spec.name for spec in specs), where
            assert state.offsets() == offsets, where
        for order in itertools.permutations(specs) if len(specs) < 3 else [specs]:
            root = copied(picture, tmp_path / "asked" / "0_0")
            for read_only in (True, False) if order[0] is specs[0] else (False,):
                state = open_state(root, read_only=read_only)
                assert state.offsets() == offsets, where
                for spec in order:
                    state.open(spec)
                    assert state.offsets() == offsets, f"{where}, with {spec.name} open"
                state.close()
        with open_state(picture) as state:
            begin = state.offsets().get(INPUT, -1) + 1
            opened = [state.open(spec) for spec in specs]
            process(state, opened, begin, LAST)
            assert rows(state, opened) == wanted, f"{where}: a record is lost"
        seen.add(offsets.get(INPUT))
    assert None in seen
    assert FIRST in seen or mode == "changelog", "which loses what was not flushed"


@pytest.mark.parametrize("operation", ["open", "write", "namespace"])
@pytest.mark.parametrize("engine", ["memory", "lmdb", "rocksdb"])
def test_a_first_commit_that_fails(tmp_path, engine, operation):
    for nth in itertools.count(1):
        root, faults = tmp_path / str(nth), Faults()
        kept = FaultyEngine(make_engine(engine), faults)
        state = open_state(root, engine=kept)
        opened = [state.open(spec) for spec in SETS["three"]]
        before = faults.counts[operation]
        faults.fail(operation, nth, StorageFullError)
        try:
            process(state, opened, 0, FIRST)
        except StorageFullError:
            pass
        else:
            assert faults.counts[operation] - before < nth
            faults.calm()
            state.close()
            break
        state.close()
        state = open_state(root, engine=kept)
        offsets = state.offsets()
        for spec in SETS["three"]:
            state.open(spec)
            assert state.offsets() == offsets
        state.close()


# A store of segments that nothing was committed to.


@pytest.fixture
def uncommitted(tmp_path):
    """A directory with a store that was committed, and one that was only opened."""
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        process(state, [state.open(ORDERS)], 0, FIRST)
        state.commit()
    state = open_state(root)
    state.open(CLICKS)
    state.close()
    assert list((root / "clicks").iterdir()) == []
    return root


@pytest.fixture(params=["no segment", "half a segment"])
def unfinished(request, uncommitted):
    """The same, and one that was killed while its first segment was made."""
    if request.param == "half a segment":
        (uncommitted / "clicks" / "clicks.2000").mkdir()
        (uncommitted / "clicks" / "clicks.2000" / "LOCK").touch()
    return uncommitted


def run(*arguments):
    ran = CliRunner().invoke(kstore, [str(given) for given in arguments], catch_exceptions=False)
    return ran.exit_code, ran.output


def test_it_is_sound_and_empty(unfinished):
    with open_state(unfinished, read_only=True) as state:
        assert state.stores() == ["clicks", "orders"]
        assert state.offsets() == {}
        assert state.offsets("clicks") == {}
        assert state.stored_spec("clicks") is None
        assert list(state.open(CLICKS).all()) == []
        assert state.offsets() == {}
    found = verify(unfinished)
    assert {finding.severity for finding in found.findings} <= {"note"}
    assert run("verify", unfinished)[0] == 0
    # Other processes fill the disk, and leave files in the directory for temporary files.
    found = [f for f in examine(unfinished).findings if f.what not in ("disk", "leftover")]
    assert [(f.what, f.severity) for f in found] == [("spec", "note"), ("offsets", "finding")]
    assert "there are no offsets in: clicks. So" in found[1].why
    code, output = run("inspect", unfinished)
    assert code == 0
    assert "window or session store" in output
    with pytest.raises(StateError, match=r"'clicks' .* has no segments"):
        upgrade(unfinished, "clicks", shape="window")


def test_it_is_copied_by_a_checkpoint(tmp_path, unfinished):
    with open_state(unfinished, read_only=True) as state:
        assert state.checkpoint(tmp_path / "cold") == ["clicks", "orders"]
    with open_state(unfinished) as state:
        state.open(CLICKS)
        assert state.checkpoint(tmp_path / "warm") == ["clicks", "orders"]
    for name in ("cold", "warm"):
        with open_state(tmp_path / name, read_only=True) as state:
            assert state.stores() == ["clicks", "orders"]
            assert state.offsets() == {}


def test_it_is_migrated(uncommitted):
    with pytest.raises(SpecError, match="has no stored spec"):
        migrate(uncommitted, "orders", engine="lmdb", every_store=True)
    migrate(uncommitted, "orders", engine="lmdb", every_store=True, spec=[CLICKS])
    with open_state(uncommitted) as state:
        assert state.engine.name == "lmdb"
        assert state.offsets() == {}
        assert state.open(ORDERS).offsets() == {INPUT: FIRST}
        assert list(state.open(CLICKS).all()) == []
    migrate(uncommitted, "orders", engine="rocksdb", every_store=True, drop_old=True)
    with open_state(uncommitted) as state:
        assert state.offsets() == {}
        assert list(state.open(CLICKS).all()) == []
    migrate(uncommitted, "clicks", to="headers", spec=[CLICKS], drop_old=True)


def test_it_may_become_a_store_of_another_kind(uncommitted):
    with open_state(uncommitted) as state:
        state.open(stores.key_value("clicks")).put(b"k", b"v")
        state.commit({INPUT: FIRST})
        assert state.offsets() == {INPUT: FIRST}
    assert not (uncommitted / "clicks").exists()
    (uncommitted / "clicks").mkdir()
    with open_state(uncommitted) as state:
        assert state.offsets() == {INPUT: FIRST}, "an empty directory beside it is none of a store"
        with pytest.raises(SpecError, match="without segments"):
            state.open(CLICKS)


def test_it_is_not_what_tells_the_engine(tmp_path):
    state = open_state(tmp_path, engine="rocksdb")
    state.open(CLICKS)
    state.close()
    (tmp_path / ".kstore.lock").unlink()
    with pytest.raises(SpecError, match="no installed engine recognises a store"):
        open_state(tmp_path)
    with open_state(tmp_path, engine="lmdb") as state:
        assert state.stores() == []


def test_what_is_no_store_of_segments(tmp_path):
    with open_state(tmp_path, engine="rocksdb") as state:
        process(state, [state.open(ORDERS)], 0, FIRST)
    folders = ["lost+found", "my backup", ".kstore-restore-orders", ".kstore-dropped~", "a/b/c"]
    for name in [*folders, ".kstore-set-aside~", ".kstore-migrate~", "notes.set-aside-1/rocksdb"]:
        (tmp_path / name).mkdir(parents=True)
    with open_state(tmp_path, read_only=True) as state:
        assert state.stores() == ["orders"]
        assert state.offsets() == {INPUT: FIRST}
    shutil.rmtree(tmp_path / "a")
    (tmp_path / ".kstore.lock").unlink()
    (tmp_path / ".kstore.lock").mkdir()
    with open_state(tmp_path, read_only=True) as state:
        assert state.stores() == ["orders"]


def test_an_open_that_fails_leaves_no_store(tmp_path, monkeypatch):
    with open_state(tmp_path, engine="rocksdb") as state:
        process(state, [state.open(ORDERS)], 0, FIRST)
        monkeypatch.setattr("kstore_core.state.store_layers.wrap_table", refuse)
        with pytest.raises(PluginError):
            state.open(CLICKS)
        assert not (tmp_path / "clicks").exists()
        monkeypatch.undo()
        assert state.offsets() == {INPUT: FIRST}
        state.open(CLICKS)
        assert (tmp_path / "clicks").is_dir()
        assert state.offsets() == {}
        (tmp_path / "visits").touch()
        with pytest.raises(EngineError, match="visits: cannot create its directory"):
            state.open(VISITS)
        assert state.stores() == ["clicks", "orders"]


def refuse(table, spec):
    raise PluginError("refused")


def test_a_directory_that_cannot_be_made_for_want_of_room(tmp_path, monkeypatch):
    def full(path, *_, **__):
        raise OSError(28, "No space left on device", str(path))

    with open_state(tmp_path, engine="rocksdb") as state:
        monkeypatch.setattr(Path, "mkdir", full)
        with pytest.raises(StorageFullError, match="clicks: cannot create its directory"):
            state.open(CLICKS)


def test_its_directory_survives_a_power_cut(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("kstore_rocksdb.engine.sync_directory", synced.append)
    for level in ("process", "power"):
        with open_state(tmp_path, engine=RocksDBEngine(), durability=level) as state:
            state.open(CLICKS)
        assert synced == ([] if level == "process" else [tmp_path])

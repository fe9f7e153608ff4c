"""The engine of a directory: told by its files, whatever became of its lock file."""

from __future__ import annotations

import functools
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.cli.app import kstore
from kstore_core.discovery.registry import engine_class
from kstore_core.errors import (
    EngineUnavailableError,
    InconsistentStateError,
    KStoreError,
    SpecError,
    StateError,
    UnknownEngineError,
)
from kstore_core.maintenance.migrate import migrate
from kstore_core.state import opening
from kstore_core.state.recognition import recognised
from kstore_core.system.lock import LOCK_FILE, DirectoryLock, recorded_engine
from kstore_core.testing import Faults, FaultyEngine
from kstore_lmdb import LMDBEngine
from kstore_memory import MemoryEngine
from kstore_rocksdb import RocksDBEngine
from tests.state.processes import lines_of

KEYED = stores.key_value("keyed")
WINDOWS = stores.window("windows", 60_000, 1_000, segment_interval_ms=30_000)
OTHER = {"rocksdb": "lmdb", "lmdb": "rocksdb"}
SETS = {"keyed": [KEYED], "windows": [WINDOWS], "both": [KEYED, WINDOWS]}


def fill(root: Path, engine: str, specs: list) -> dict:
    with open_state(root, engine=engine) as state:
        for spec in specs:
            store = state.open(spec)
            for number in range(20):
                if spec is KEYED:
                    store.put(b"%d" % number, b"v")
                else:
                    store.put(b"%d" % number, b"v", window_start=number * 5_000)
        state.commit({("t", 0): 41})
        return {spec.name: list(state.open(spec).all()) for spec in specs}


@functools.cache
def damages(engine: str) -> dict:
    """What may become of a lock file: a function of its path each."""

    def written(content: bytes):
        return lambda path: path.write_bytes(content)

    def replaced(make):
        def do(path: Path) -> None:
            path.unlink()
            make(path)

        return do

    return {
        "whole": lambda path: None,
        "removed": lambda path: path.unlink(),
        "empty": written(b""),
        "garbage": written(b"\x00garbage\n" * 20),
        "no UTF-8": written(b'{"engine": "\xff\xfe"}'),
        "cut": lambda path: path.write_bytes(path.read_bytes()[:9]),
        "a list": written(b'["rocksdb"]'),
        "a number": written(b"7"),
        "a number for a name": written(b'{"engine": 7, "pid": "x", "changes": 3}'),
        "nested": written(b"[" * 4000),
        "huge": written(b'{"engine": "' + b"x" * 10_000_000 + b'"}'),
        "huge numbers": written(b'{"changes": "%s", "pid": %s}' % (b"9" * 3000, b"9" * 500)),
        "of an unknown engine": written(b'{"engine": "nowhere", "pid": null}'),
        "of the other engine": written(json.dumps({"engine": OTHER[engine], "pid": None}).encode()),
        "a directory": replaced(Path.mkdir),
        "a link to itself": replaced(lambda path: path.symlink_to(path)),
        "a pipe": replaced(os.mkfifo),
    }


UNWRITABLE = ("a directory", "a link to itself", "a pipe")


@pytest.fixture(scope="module", params=[(e, s) for e in OTHER for s in ("keyed", "windows")])
def home(request, tmp_path_factory):
    engine, kinds = request.param
    root = tmp_path_factory.mktemp("home") / "0_0"
    rows = fill(root, engine, SETS[kinds])
    return engine, SETS[kinds], root, rows


@pytest.mark.parametrize("damage", damages("rocksdb"))
def test_whatever_the_lock_file_is_a_store_is_never_empty(home, tmp_path, damage):
    engine, specs, source, rows = home
    wrong = [OTHER[engine], engine_class(OTHER[engine])(), MemoryEngine()]
    for given_engine in (None, engine, *wrong):
        for read_only in (True, False):
            root = tmp_path / "0_0"
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(source, root)
            damages(engine)[damage](root / LOCK_FILE)
            came = read(root, given_engine, read_only, specs)
            where = f"{damage}, engine={given_engine!r}, read_only={read_only}: {came!r}"
            if given_engine in wrong or (damage == "of the other engine" and given_engine is None):
                assert isinstance(came, SpecError), where
                assert repr(engine) in str(came), where
                assert not (root / OTHER[engine]).exists(), where
            elif damage in UNWRITABLE and not read_only:
                assert isinstance(came, StateError), where
            else:
                assert came == (engine, {("t", 0): 41}, rows), where
                assert read_only or recorded_engine(root) == engine, f"{where}: it is mended"


def read(root: Path, engine: object, read_only: bool, specs: list) -> object:
    """The engine, offsets and rows of a directory, or the error that opening it gives."""
    try:
        with open_state(root, engine=engine, read_only=read_only) as state:
            rows = {spec.name: list(state.open(spec).all()) for spec in specs}
            return state.engine.name, state.offsets(), rows
    except KStoreError as error:
        return error


def test_what_a_refusal_says(tmp_path):
    fill(tmp_path, "lmdb", [KEYED])
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(SpecError) as caught:
        open_state(tmp_path, engine="rocksdb")
    assert str(caught.value) == (
        f"{tmp_path} has stores of the engine 'lmdb' (lmdb/keyed). The engine 'rocksdb' cannot "
        "read these stores. Open the directory with engine='lmdb', or use another directory"
    )
    assert not (tmp_path / LOCK_FILE).exists(), "a refused open leaves nothing"
    DirectoryLock(tmp_path, "rocksdb").release()
    for engine in (None, "rocksdb"):
        with pytest.raises(SpecError, match=r"\(lmdb/keyed\), although its .kstore.lock names 'ro"):
            open_state(tmp_path, engine=engine)
    with open_state(tmp_path, engine="lmdb") as state:
        assert len(list(state.open(KEYED).all())) == 20
    assert recorded_engine(tmp_path) == "lmdb"


def test_stores_of_two_engines_are_for_the_caller_to_choose(tmp_path):
    rows = fill(tmp_path / "a", "lmdb", [KEYED])
    fill(tmp_path / "b", "rocksdb", [WINDOWS])
    shutil.copytree(tmp_path / "b" / "windows", tmp_path / "a" / "windows")
    root = tmp_path / "a"
    with open_state(root, read_only=True) as state:
        assert state.engine.name == "lmdb", "the lock file names it, and it is there"
    (root / LOCK_FILE).unlink()
    with pytest.raises(SpecError, match=r"'lmdb' \(lmdb/keyed\) and of .* 'rocksdb' \(windows\)"):
        open_state(root)
    with open_state(root, engine="lmdb") as state:
        assert list(state.open(KEYED).all()) == rows["keyed"]


@pytest.mark.parametrize("damage", ["removed", "of the other engine", "of an unknown engine"])
def test_what_is_left_of_a_damaged_store_is_recognised(tmp_path, damage):
    for engine, lost in (("rocksdb", "rocksdb/keyed/CURRENT"), ("lmdb", "lmdb/keyed/data.mdb")):
        root = tmp_path / engine
        fill(root, engine, [KEYED])
        (root / lost).unlink()
        damages(engine)[damage](root / LOCK_FILE)
        for given_engine in (None, OTHER[engine], engine):
            with pytest.raises(KStoreError) as caught, open_state(root, engine=given_engine) as it:
                it.open(KEYED)
            assert engine in str(caught.value)


def test_an_empty_directory_is_nobodys(tmp_path):
    for name in ("rocksdb", "lmdb", "windows", ".kstore-migrate~"):
        (tmp_path / name).mkdir()
    (tmp_path / ".lock").touch()
    assert recognised(tmp_path) == []
    with pytest.raises(SpecError, match="no installed engine recognises a store"):
        open_state(tmp_path)
    for engine in ("lmdb", "rocksdb", "memory"):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        open_state(tmp_path, engine=engine).close()


def test_who_waits_for_the_lock_looks_again(tmp_path, monkeypatch):
    """The stores of another engine may have been made since the first look."""
    root = tmp_path / "0_0"

    def slow(directory: Path, *, synced: bool) -> None:
        monkeypatch.undo()
        fill(root, "rocksdb", [KEYED])

    monkeypatch.setattr(opening, "make_directory", slow)
    with pytest.raises(SpecError, match=r"written with the engine 'rocksdb'"):
        open_state(root, engine="lmdb")
    assert recorded_engine(root) == "rocksdb", "what it records is not touched"
    with open_state(root) as state:
        assert len(list(state.open(KEYED).all())) == 20


def said_without(library: str, asked: list[tuple[Path, str | None]]) -> list[str]:
    """What opening says in a process in which a library cannot be imported."""
    code = (
        "import sys, json\n"
        f"sys.modules[{library!r}] = None\n"
        "from kstore_core import open_state\n"
        "for root, engine in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        print(open_state(root, engine=engine, read_only=True).engine.name)\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, error)\n"
    )
    return lines_of(code, [(str(root), engine) for root, engine in asked])


@pytest.mark.parametrize(("engine", "library"), [("lmdb", "lmdb"), ("rocksdb", "rocksdict")])
def test_the_files_of_an_engine_that_cannot_be_loaded(tmp_path, engine, library):
    roots = []
    for kinds, specs in SETS.items():
        whole, without = tmp_path / kinds, tmp_path / f"{kinds}-without"
        fill(whole, engine, specs)
        shutil.copytree(whole, without)
        (without / LOCK_FILE).unlink()
        roots += [whole, without]
    asked = [(root, given_engine) for root in roots for given_engine in (None, OTHER[engine])]
    for (root, given_engine), said in zip(asked, said_without(library, asked), strict=True):
        assert repr(engine) in said
        assert said.startswith("EngineUnavailable" if given_engine is None else "SpecError"), said
        if given_engine is None or root.name.endswith("-without"):
            assert "pip install" in said
    mine, empty = tmp_path / "mine", tmp_path / "empty"
    fill(mine, OTHER[engine], [KEYED])
    (mine / LOCK_FILE).unlink()
    empty.mkdir()
    opened, refused = said_without(library, [(mine, None), (empty, None)])
    assert opened == OTHER[engine]
    assert refused.startswith("SpecError"), refused
    assert "Some engines could not be tried" in refused
    assert repr(engine) in refused


def test_an_engine_that_fails_to_look_stands_in_nobodys_way(tmp_path, monkeypatch):
    fill(tmp_path, "rocksdb", [KEYED])
    (tmp_path / LOCK_FILE).unlink()

    def broken(engine, root):
        raise RuntimeError("broken")

    monkeypatch.setattr(LMDBEngine, "recognises", broken)
    with open_state(tmp_path) as state:
        assert state.engine.name == "rocksdb"
    shutil.rmtree(tmp_path)
    monkeypatch.undo()
    fill(tmp_path, "lmdb", [KEYED])
    (tmp_path / LOCK_FILE).unlink()
    monkeypatch.setattr(LMDBEngine, "recognises", broken)
    with pytest.raises(EngineUnavailableError, match=r"\(lmdb/keyed\)\. RuntimeError: broken"):
        open_state(tmp_path)
    with pytest.raises(SpecError, match=r"'lmdb' \(lmdb/keyed\).*RuntimeError: broken"):
        open_state(tmp_path, engine="rocksdb")


def test_a_directory_of_an_engine_that_is_not_installed(tmp_path):
    tmp_path = tmp_path / "0_0"
    tmp_path.mkdir()
    (tmp_path / LOCK_FILE).write_text('{"engine": "nowhere", "pid": null}')
    (tmp_path / "nowhere" / "keyed").mkdir(parents=True)
    (tmp_path / "nowhere" / "keyed" / "rows").touch()
    with pytest.raises(UnknownEngineError, match="no engine named 'nowhere'"):
        open_state(tmp_path)
    with pytest.raises(SpecError, match="written with the engine 'nowhere'"):
        open_state(tmp_path, engine="rocksdb")


def test_an_engine_around_another_is_asked_as_that(tmp_path):
    fill(tmp_path, "rocksdb", [WINDOWS])
    (tmp_path / LOCK_FILE).unlink()
    with open_state(tmp_path, engine=FaultyEngine(RocksDBEngine(), Faults())) as state:
        assert len(list(state.open(WINDOWS).all())) > 0


class KilledError(Exception):
    pass


@pytest.mark.parametrize("before", OTHER)
@pytest.mark.parametrize("damage", ["whole", "removed", "garbage"])
def test_a_migration_between_engines_that_was_killed(tmp_path, before, damage):
    """At no step is either engine's half of the directory taken for all of it."""
    steps = ["set aside", "put in place", "record", "finish"]
    for number, step in enumerate(steps):
        root = tmp_path / str(number)
        rows = fill(root, before, SETS["both"])

        def stop(progress, step=step):
            if progress.step == step:
                raise KilledError

        with pytest.raises(KilledError):
            migrate(root, "keyed", engine=OTHER[before], every_store=True, on_progress=stop)
        for engine in (None, before, OTHER[before]):
            (root / LOCK_FILE).write_text(json.dumps({"engine": before, "pid": None}))
            damages(before)[damage](root / LOCK_FILE)
            with pytest.raises(KStoreError) as caught, open_state(root, engine=engine) as state:
                state.open(KEYED)
            if not (isinstance(caught.value, SpecError) and damage == "whole"):
                assert isinstance(caught.value, InconsistentStateError), caught.value
                assert "kstore migrate" in str(caught.value)
        migrate(root, "keyed")
        damages(OTHER[before])[damage](root / LOCK_FILE)
        with open_state(root) as state:
            assert state.engine.name == OTHER[before]
            assert {s.name: list(state.open(s).all()) for s in SETS["both"]} == rows


@given(content=st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_for_a_lock_file(tmp_path_factory, content):
    root = tmp_path_factory.mktemp("any")
    (root / LOCK_FILE).write_bytes(content)
    lock = DirectoryLock(root, "rocksdb")
    with lock.change():
        pass
    lock.release()
    assert recorded_engine(root) == "rocksdb"


@pytest.mark.slow
@pytest.mark.parametrize("engine", OTHER)
@pytest.mark.parametrize("damage", ["removed", "garbage", "of an unknown engine", "a directory"])
def test_commands_recognise_the_engine(tmp_path, engine, damage):
    root = tmp_path / "0_0"
    fill(root, engine, SETS["both"])
    damages(engine)[damage](root / LOCK_FILE)

    def run(command: str, *arguments: object) -> tuple[int, str]:
        given = [command, str(root), *map(str, arguments)]
        ran = CliRunner().invoke(kstore, given, catch_exceptions=False)
        return ran.exit_code, ran.output

    code, said = run("inspect", "--json")
    assert code == 0
    (directory,) = json.loads(said)["directories"]
    assert directory["engine"] == engine
    assert {store["name"] for store in directory["stores"]} == {"keyed", "windows"}
    assert run("verify")[0] == 0
    assert run("doctor")[0] == (1 if damage == "a directory" else 0)
    code, said = run("dump", "keyed")
    assert (code, len(said.splitlines())) == (0, 1 + 20), "a head, and the rows"
    assert run("checkpoint", tmp_path / "copy")[0] == 0
    assert recorded_engine(tmp_path / "copy") == engine
    for command in ("inspect", "verify", "dump", "doctor"):
        arguments = ["keyed"] if command == "dump" else []
        code, said = run(command, *arguments, "--engine", OTHER[engine])
        assert code == (1 if command == "doctor" else 2), f"{command}: {said}"
        assert repr(engine) in said


@pytest.mark.parametrize("engine", OTHER)
def test_a_directory_near_a_state_directory(tmp_path, engine):
    fill(tmp_path / "app" / "0_0", engine, [KEYED])
    (tmp_path / "app" / "0_0" / LOCK_FILE).unlink()
    ran = CliRunner().invoke(kstore, ["inspect", str(tmp_path / "app")])
    assert ran.exit_code == 2
    assert f"did you mean {tmp_path / 'app' / '0_0'}?" in ran.output

"""Forks may use nothing that they inherit; processes that are spawned open stores of their own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, stores
from kstore_core.changelog import FileChangelog
from kstore_core.errors import EngineLockedError, ForkedHandleError
from kstore_core.testing.kinds import KINDS, Kind
from kstore_core.testing.store_suite.any_kind import items, put, scan, spec
from tests.support.engines import Home
from tests.typed.processes import in_a_child, outcome

PLAIN, WINDOW, SESSION = "timestamped_headers", "window_timestamped_headers", "session_headers"
EACH_SHAPE = pytest.mark.parametrize("name", [PLAIN, "versioned_headers", WINDOW, SESSION])
LAYERS: dict[str, dict[str, Any]] = {
    "bare": {},
    "layered": {},
    "logged": {},
    "committed": {"transactional": True},
}


def kind_of(name: str) -> Kind:
    return next(kind for kind in KINDS if str(kind) == name)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@EACH_SHAPE
@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_every_handle_is_its_parents(
    home: Home, tmp_path: Path, stack: ExitStack, name: str, layers: str
) -> None:
    kind = kind_of(name).layered(10_000) if layers == "layered" else kind_of(name)
    how = dict(LAYERS[layers])
    if layers == "logged":
        log = stack.enter_context(FileChangelog(tmp_path / "logs", "a-s-changelog"))
        how["changelog"] = log
    state = stack.enter_context(home.open(**how))
    store = state.open(spec(kind))
    for number in range(700):
        put(kind, store, b"%03d" % number, kind.record(b"v", 50))
    state.commit({("t", 0): 1})
    put(kind, store, b"staged", kind.record(b"v", 50))
    begun = scan(kind, store)
    next(begun)
    uses: dict[str, Callable[[], object]] = {
        "open": lambda: state.open(stores.key_value("another")),
        "commit": lambda: state.commit(),
        "flush": lambda: state.flush(),
        "offsets": lambda: state.offsets(),
        "stores": lambda: state.stores(),
        "record": lambda: state.record().__enter__(),
        "committed": lambda: state.committed(),
        "put": lambda: put(kind, store, b"k", kind.record(b"v", 50)),
        "scan": lambda: list(scan(kind, store)),
        "a scan that was begun": lambda: list(begun),
    }
    view = None
    if layers == "committed":
        view = stack.enter_context(state.committed())
        seen = view.open(spec(kind))
        begun_there = scan(kind, seen)
        next(begun_there)
        uses |= {
            "a view's offsets": lambda: view.offsets(),
            "a view's store": lambda: list(scan(kind, seen)),
            "a view's scan": lambda: list(begun_there),
        }
    if layers == "logged":
        uses |= {
            "a log's append": lambda: log.append(b"k", b"v", 0),
            "a log's commit": lambda: log.commit(),
        }
    outcomes = in_a_child(lambda: {what: outcome(use) for what, use in uses.items()})
    assert outcomes == str(dict.fromkeys(uses, ForkedHandleError.__name__))
    assert in_a_child(state.close) == "None"
    assert len(list(begun)) == 700, "the parent goes on"
    if view is not None:
        assert len(items(kind, seen)) == 700
    state.commit()
    assert len(items(kind, store)) == 701


def work(specs: list[Any], path: Path, engine: str) -> None:
    """In a process that was spawned: a store of each spec, and the parent's, to be read."""
    for kind, made in zip(KINDS, specs, strict=True):
        with open_state(path / "own" / "0_0", engine=engine) as state:
            put(kind, state.open(made), b"k", kind.record(b"child", 50))
        with open_state(path / "parents" / "0_0", read_only=True) as state:
            assert [key for key, _ in items(kind, state.open(made))] == [b"k"]
    try:
        open_state(path / "parents" / "0_0", engine=engine)
    except EngineLockedError as error:
        (path / "told").write_text(f"{error.pid} {error}")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_a_spawned_process_takes_specs_of_every_kind(
    tmp_path: Path, engine: str, method: str
) -> None:
    specs = [spec(kind, str(kind)) for kind in KINDS]
    with open_state(tmp_path / "parents" / "0_0", engine=engine) as state:
        for kind, made in zip(KINDS, specs, strict=True):
            put(kind, state.open(made), b"k", kind.record(b"parent", 50))
        state.commit()
        context = multiprocessing.get_context(method)
        child = context.Process(target=work, args=(specs, tmp_path, engine))
        child.start()
        child.join(60)
        assert child.exitcode == 0
    with open_state(tmp_path / "own" / "0_0", read_only=True) as state:
        assert state.stores() == sorted(made.name for made in specs)
    pid, told = (tmp_path / "told").read_text().split(maxsplit=1)
    assert pid in told
    assert pid.isdecimal()

"""The command that ``kstore doctor --set-aside`` tells makes the same store anew."""

import shlex

import pytest

from kstore_core import open_state, stores
from kstore_core.testing.kinds import KINDS
from tests.maintenance.verify.stores import fill, spec_of

pytestmark = pytest.mark.usefixtures("one_process")


def everything(store):
    return list(store.fetch_range(None, None) if store.spec.shape == "session" else store.all())


def check(run, tmp_path, spec, write):
    root, logs = tmp_path / "0_0", tmp_path / "logs"
    with open_state(root, engine="lmdb", changelog=logs) as state:
        write(state.open(spec))
    with open_state(root, read_only=True) as state:
        said, rows = state.stored_spec(spec.name), everything(state.open(spec))
    assert said.describes(spec)
    ran = run("doctor", root, "--set-aside", spec.name)
    assert ran.code == 0
    with open_state(root, read_only=True) as state:
        assert state.stores() == []
    command = shlex.split(ran.out.split(": kstore ")[1])
    command[command.index("LOGDIR")] = str(logs)
    assert run(*command).code == 0
    with open_state(root, read_only=True) as state:
        assert state.stored_spec(spec.name) == said
        assert everything(state.open(spec)) == rows
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_of_every_kind(run, tmp_path, kind):
    assert check(run, tmp_path, spec_of(kind), lambda store: fill(store, kind, 0))


def test_with_duplicates(run, tmp_path):
    def write(store):
        for value in (b"1", b"2", b"3"):
            store.put(b"k", value, window_start=5)

    spec = stores.window("s", 60_000, 10, retain_duplicates=True)
    assert len(check(run, tmp_path, spec, write)) == 3


@pytest.mark.parametrize(
    "spec",
    [stores.session("s", 0), stores.versioned_key_value("s", 0)],
    ids=lambda spec: spec.shape,
)
def test_without_rows_and_of_no_retention(run, tmp_path, spec):
    assert check(run, tmp_path, spec, lambda _: None) == []

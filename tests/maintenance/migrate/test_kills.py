"""SIGKILL at each step of a migration, and at any time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kstore_core import open_state, stores
from kstore_core.maintenance.migrate import migrate
from kstore_core.state.migration_note import places
from tests.maintenance.migrate.killing import WAYS

pytestmark = pytest.mark.usefixtures("left_sound")

SWAP = ["set aside", "put in place", "finish"]
STEPS = {
    "segments": ["copy", "verify", "plan", *SWAP],
    "engine": ["copy", "verify", "plan", *SWAP[:2], "record", "finish"],
    "dropping": ["copy", "verify", "plan", *SWAP, "drop"],
    "history": ["copy", "verify", "plan", *SWAP],
}


def killing(how: str, root, *arguments) -> list[str]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.maintenance.migrate.killing",
            how,
            str(root),
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("way", STEPS)
def test_a_migration_that_is_killed_at_any_step_is_finished_or_begun_again(tmp_path, way):
    steps = [line.split("\t") for line in killing("steps", tmp_path / "0_0", way)]
    names = [step.partition(" ")[2] for step, _ in steps]
    assert list(dict.fromkeys(names)) == STEPS[way]
    left = dict(zip(names, (opens for _, opens in steps), strict=True))
    assert left["copy"] == left["verify"] == left["plan"] == "True"
    assert left["put in place"] == left["finish"] == "False", "it may not be opened: it says so"
    assert left.get("drop", "True") == "True"


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "way"), list(enumerate(way for way in WAYS if way != "dropping")))
def test_a_migration_that_is_killed_at_any_time(tmp_path, way, seed):
    rounds = 6
    (killed,) = killing("random", tmp_path / "0_0", way, rounds, seed)
    assert int(killed) > 0


def test_a_migration_that_was_killed_after_its_last_step_leaves_nothing(tmp_path):
    """The plan is gone, and the folder of the new stores is still there."""
    root = tmp_path / "0_0"
    with open_state(root, engine="lmdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    migrate(root, "s", to="timestamped")
    (places(root).new / "lmdb").mkdir(parents=True)
    (done,) = migrate(root, "s", to="timestamped")
    assert not done.changed
    assert done.old is not None
    assert done.old.is_dir()
    assert not places(root).new.exists()

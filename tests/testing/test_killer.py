"""The killer kills, tells the truth, and finds the bugs that are planted for it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kstore_core.errors import InconsistentStateError, UnsupportedError
from kstore_core.testing import (
    CrashSuite,
    Killer,
    Tally,
    combination,
    combinations,
    covering,
)
from kstore_core.testing.killer.__main__ import main
from kstore_core.testing.killer.steps import StepWriter, read_steps
from kstore_lmdb import LMDBEngine
from kstore_memory import MemoryEngine
from tests.testing.planted_crashes import PLANTED, Crashing

STAGED = Crashing.killed


@pytest.mark.parametrize("engine", PLANTED, ids=lambda engine: engine.__name__)
def test_a_planted_bug_is_caught(engine: type[Crashing], tmp_path: Path) -> None:
    killer = Killer(engine, combination(engine.killed), tmp_path, seed=1)
    # A store that finds itself short of rows says so when it is opened.
    with pytest.raises((AssertionError, InconsistentStateError)) as caught:
        killer.run(60)
    assert f"of {engine.killed} with seed 1" in "".join(caught.value.__notes__)


def test_without_a_bug_nothing_is_found(tmp_path: Path) -> None:
    tally = Killer(Crashing, combination(STAGED), tmp_path, seed=1).run(30)
    assert tally.kills == tally.in_start + tally.in_changes + tally.in_commit == 30
    assert tally.in_commit >= 3, "kills come in the middle of commits"
    assert tally.in_start >= 1
    assert tally.commits > 30
    assert 10 <= tally.checks <= 30


class Dies(Crashing):
    """Its process ends by a signal of its own."""

    def stores(self, root: Path) -> list[str]:
        if (root / "lmdb").exists():
            os.kill(os.getpid(), signal.SIGABRT)
        return super().stores(root)


class Fails(Crashing):
    """It raises what it should not."""

    def open(self, *arguments, **named):
        raise LookupError("no such thing")


@pytest.mark.parametrize(("engine", "told"), [(Dies, "status -6"), (Fails, "no such thing")])
def test_a_writer_that_ends_by_itself_is_a_failure(
    engine: type[Crashing], told: str, tmp_path: Path
) -> None:
    killer = Killer(engine, combination(STAGED), tmp_path)
    with pytest.raises(AssertionError, match=told):
        killer.run(20)


def test_what_would_show_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'memory' stores nothing on disk"):
        Killer(MemoryEngine, combination(STAGED), tmp_path / "never")
    assert not (tmp_path / "never").exists()
    killer = Killer(Crashing, combination(STAGED), str(tmp_path / "root"))
    for kills in (0, -1):
        with pytest.raises(ValueError, match="kills must be 1 or more"):
            killer.run(kills)
    assert killer.run(1).kills == 1, "in a directory that was named by a str"
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])


def test_the_same_seed_writes_the_same() -> None:
    for one in combinations():
        for subject in one.subjects:
            first, second = (list(subject.changes(seed, 7)) for seed in (1, 2))
            assert first == list(subject.changes(1, 7)) != second


def test_a_cover_has_every_pair_of_choices() -> None:
    everything = combinations()

    def pairs(some):
        parts = [str(one).split("-") for one in some]
        return {(a, b, p[a], p[b]) for p in parts for a in range(4) for b in range(a)}

    cover = covering(everything)
    assert pairs(cover) == pairs(everything)
    assert len(cover) < len(everything) / 4
    assert [combination(str(one)) for one in everything] == everything
    with pytest.raises(ValueError, match="no combination 'x'"):
        combination("x")


def test_steps_are_read_up_to_the_last_whole_line(tmp_path: Path) -> None:
    steps = read_steps(tmp_path / "steps")
    assert (steps.opened, steps.begun, steps.returned) == (False, 0, 0)
    writer = StepWriter(tmp_path / "steps")
    for line in ("open", "begun 4", "called 4", "returned 4", "begun 5", "called 5"):
        writer.write(line)
    with (tmp_path / "steps").open("a") as file:
        file.write("returned")
    steps = read_steps(tmp_path / "steps")
    assert (steps.opened, steps.begun, steps.called, steps.returned) == (True, 5, 5, 4)
    assert steps.in_commit
    assert steps.commits == 1


def test_the_command_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--engine", "lmdb", "--rounds", "3", "--combination", STAGED, "--dir", str(tmp_path)]
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert f"lmdb {STAGED}" in out
    assert "3 kills in " in out
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_how_to_kill_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kstore_core.testing.killer.__main__.make_engine", lambda name, options: Fails(options)
    )
    asked = ["--engine", "lmdb", "--seed", "3", "--combination", STAGED, "--dir", str(tmp_path)]
    assert main([*asked, "--options", "{}"]) == 1
    out = capsys.readouterr().out
    assert "no such thing" in out
    assert f"--engine lmdb --combination {STAGED} --seed 3 --rounds 10 --options '{{}}'" in out
    assert len(list(tmp_path.iterdir())) == 1, "what failed stays"


def test_tallies_add_up() -> None:
    assert Tally(1, 1, 0, 0, 2, 1) + Tally(1, 0, 0, 1, 3, 1) == Tally(2, 1, 0, 1, 5, 2)


class TestMemoryIsNotKilled(CrashSuite):
    """What survives the process survives in its changelog."""

    combinations = (STAGED,)

    def make_engine(self):
        return MemoryEngine()


def test_several_hundred_are_killed() -> None:
    """In tests/testing/test_killed_*.py, each of whose tests counts its own."""
    assert 2 * CrashSuite.kills * len(CrashSuite.combinations) >= 300


def test_lmdb_loses_no_tail_at_the_level_changelog() -> None:
    chosen = combination("headers-changelog-bare-staged")
    assert not chosen.loses_tails(LMDBEngine.capabilities)

"""The interrupter interrupts, goes on where nothing is wrong, and finds what is planted for it."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from kstore_core.testing import Interrupter, WedgedError, combination, combinations
from kstore_core.testing.interrupter import OPERATIONS, Tally, operations_of
from kstore_core.testing.interrupter.__main__ import main
from kstore_core.testing.interrupter.aims import Aim, AtEntry, AtStep, AtTime, Raised
from kstore_lmdb import LMDBEngine
from kstore_memory import MemoryEngine
from kstore_rocksdb import RocksDBEngine
from tests.testing.planted_interrupts import PLANTED, Interrupted


def interrupter(engine: type[Interrupted], root: Path, **how) -> Interrupter:
    return Interrupter(engine, combination(engine.chosen), engine.operation, root, **how)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # nobody closes what is wedged
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("engine", PLANTED, ids=lambda engine: engine.__name__)
def test_a_planted_bug_is_caught(engine: type[Interrupted], tmp_path: Path) -> None:
    told = f"^{engine.operation} of {engine.chosen} on memory with seed 1 was interrupted"
    with pytest.raises(WedgedError, match=told) as caught:
        interrupter(engine, tmp_path, seed=1).run(100)
    del caught
    gc.collect()


def test_a_background_process_is_interrupted_too(tmp_path: Path) -> None:
    """Its shell lets it ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        tally = interrupter(Interrupted, tmp_path, aims=("step",)).run(5)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert tally.raised == 5


def test_without_a_bug_nothing_is_found(tmp_path: Path) -> None:
    tally = interrupter(Interrupted, tmp_path, seed=1).run(30)
    assert tally.interrupts == tally.raised == 30
    assert 10 <= tally.trials <= 30


@pytest.mark.parametrize(
    ("chosen", "operation"),
    [
        ("two-process-bare-staged", "close"),
        ("two-process-cache+changelog-spilled", "commit"),
        ("window-changelog-bare-staged", "expire"),
    ],
)
def test_exceptions_that_ask_no_signal(tmp_path: Path, chosen: str, operation: str) -> None:
    """One that another thread has sent is put off by no section, and is survived all the same."""
    tally = Interrupter(
        MemoryEngine, combination(chosen), operation, tmp_path, seed=3, aims=("raised",)
    ).run(20)
    assert tally.interrupts == 20


def test_every_combination_on_every_engine_has_its_calls() -> None:
    for engine in (MemoryEngine, LMDBEngine, RocksDBEngine):
        able = engine().capabilities
        calls = {name for one in combinations() for name in operations_of(one, able)}
        lacking = set() if able.persistent else {"checkpoint", "upgrade", "migrate"}
        assert calls == set(OPERATIONS) - lacking


def again_and_again(work: Callable[[], object], aim: Aim) -> None:
    """Without the garbage collector, whose finalizers would swallow the interrupt."""
    gc.disable()
    try:
        with aim:
            while not aim.hit:
                work()
    finally:
        gc.enable()


def test_steps_are_counted_and_hit() -> None:
    def work() -> list[int]:
        return [number * number for number in range(10)]

    with AtStep(None) as counted:
        work()
    assert not counted.hit
    assert counted.steps > 50
    before = signal.getsignal(signal.SIGALRM)
    for aim in (AtStep(counted.steps // 2), Raised(20), AtTime(1e-6)):
        with pytest.raises(KeyboardInterrupt):
            again_and_again(work, aim)
        assert aim.hit
        assert signal.getsignal(signal.SIGALRM) is before


def test_functions_are_counted_and_interrupted_before_their_first_step() -> None:
    class Held:
        is_held = False

        def __enter__(self) -> None:
            self.is_held = True

        def __exit__(self, *_: object) -> None:
            self.is_held = False

    def work() -> None:
        for _ in range(3):
            with held:
                pass

    held = Held()
    with AtStep(None) as counted:
        work()
    entered, left = Held.__enter__.__code__, Held.__exit__.__code__
    assert counted.calls == {work.__code__: 1, entered: 3, left: 3}
    for code, call, is_held in ((entered, 2, False), (left, 3, True)):
        held = Held()
        aim = AtEntry(code, call)
        with pytest.raises(KeyboardInterrupt), aim:
            work()
        assert aim.hit
        assert aim.calls[code] == call
        assert held.is_held == is_held
    assert repr(aim).startswith("AtEntry 3 of ")
    with AtEntry(left, 4) as late:
        work()
    assert not late.hit


def test_an_alarm_on_the_way_out_leaves_no_handler() -> None:
    before = signal.getsignal(signal.SIGALRM)
    aim = AtTime(60)
    aim.__enter__()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGALRM)
    assert aim.hit
    assert signal.getsignal(signal.SIGALRM) is before
    signal.setitimer(signal.ITIMER_REAL, 0)


def test_what_would_show_nothing_is_refused(tmp_path: Path) -> None:
    for interrupts in (0, -1):
        with pytest.raises(ValueError, match="interrupts must be 1 or more"):
            interrupter(Interrupted, tmp_path).run(interrupts)
    with pytest.raises(SystemExit):
        main(["--rounds", "0"])


def test_tallies_are_added() -> None:
    assert Tally(1, 2, 3) + Tally(10, 20, 30) == Tally(11, 22, 33)


def test_the_command_counts_by_engine_shape_and_call(tmp_path: Path, capsys) -> None:
    how = ["--engine", "memory", "--operation", "commit", "--dir", str(tmp_path)]
    assert main([*how, "--rounds", "12", "--seed", "5"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["interrupts", "raised", "trials", "wedged"]
    assert all(line.startswith("memory ") for line in told[1:-2])
    assert told[-2].split()[:2] == ["all", "12"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_command_says_how_to_see_it_again(tmp_path: Path, capsys) -> None:
    how = ["--engine", "memory", "--combination", "headers-process-bare-staged"]
    how += ["--operation", "close", "--aim", "step", "--dir", str(tmp_path)]
    with mock.patch(
        "kstore_core.testing.interrupter.__main__.make_engine", side_effect=lambda *_: PLANTED[1]()
    ):
        status = main([*how, "--rounds", "200", "--seed", "7"])
    told = capsys.readouterr().out
    assert status == 1
    assert "again: python -m kstore_core.testing.interrupter --engine memory --combination" in told
    assert "--aim step" in told
    gc.collect()

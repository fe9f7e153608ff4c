"""Half a minute of fuzzing: with atheris, or with plain chance where it has no wheel."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.family import FAMILIES, Family, family_of, mutated, shares

RUNS = 200_000
ATHERIS = find_spec("atheris") is not None
SHARES = shares(FAMILIES, RUNS)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_well_formed_and_a_little_chance(name: str) -> None:
    family = family_of(name)
    for data in mutated(family, len(family.seeds) + 300, seed=1):
        family.check(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_that_nobody_wrote(name: str) -> None:
    if not ATHERIS:
        family = family_of(name)
        for data in mutated(family, SHARES[name], seed=2):
            family.check(data)
        return
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, "--runs", str(SHARES[name])],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout == f"{name}: {SHARES[name]} inputs, no fault\n"


def test_every_family_and_every_check_of_it_is_run() -> None:
    for name in FAMILIES:
        family = family_of(name)
        assert family.name == name
        assert {which for which, _ in family.seeds} == set(range(len(family.checks)))


def test_a_fault_is_found_by_chance() -> None:
    def check(data: bytes) -> None:
        assert data[:1] != b"\xff"

    planted = Family("planted", [check], [(0, b"abc")])
    with pytest.raises(AssertionError):
        any(map(planted.check, mutated(planted, 5_000, seed=3)))


@pytest.mark.skipif(not ATHERIS, reason="atheris has no wheel for this Python or system")
def test_a_fault_is_found_by_atheris_and_the_input_is_kept(tmp_path: Path) -> None:
    planted = (
        "import sys\n"
        "from kstore_core import codec\n"
        "codec.split_session_key = lambda data: codec.split_window_key(data)\n"
        "from tests.fuzz.__main__ import fuzz\n"
        "fuzz('keys', ['-runs=100000', '-seed=1', f'-artifact_prefix={sys.argv[1]}/fault-'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", planted, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode != 0
    assert "AssertionError" in done.stdout + done.stderr
    assert list(tmp_path.glob("fault-*"))

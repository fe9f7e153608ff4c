"""An exception of a signal handler splits no put from its change for the changelog."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layers.interrupted import CASES, INTERRUPTS
from tests.support.places import ROOT


@pytest.mark.parametrize("case", CASES)
def test_interrupted_puts(tmp_path: Path, case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.layers.interrupted", case, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    puts, present, restored = json.loads(done.stdout)
    assert restored == present
    assert len(present) >= puts - INTERRUPTS

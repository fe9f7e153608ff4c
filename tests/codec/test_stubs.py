"""The stubs say what the compiled modules have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT


@pytest.mark.slow
def test_the_stubs_match_the_modules(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text(r".*\.__pyx_capi__" + "\n")  # what extension modules offer each other
    command = [sys.executable, "-m", "mypy.stubtest", "kstore_core.codec"]
    options = ["--mypy-config-file", "pyproject.toml", "--allowlist", str(allowed)]
    done = subprocess.run(
        [*command, *options, "--ignore-unused-allowlist"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

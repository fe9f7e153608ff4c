"""Each public function on a Spark Connect session: one run of surface.py in another process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.places import ROOT

SURFACE = Path(__file__).with_name("surface.py")
NAMES = re.findall(r"^def (test_\w+)", SURFACE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The texts of the failures of each test of surface.py, which are empty if the test passed."""
    place = tmp_path_factory.mktemp("connect")
    report = place / "report.xml"
    # The server and its Python workers inherit the path.
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins"), *filter(None, sys.path)])
    command = [sys.executable, "-m", "pytest", str(SURFACE), "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, f"--junitxml={report}", f"--basetemp={place / 'run'}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert report.exists(), run.stdout + run.stderr
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        texts = [f"{found.attrib.get('message')}\n{found.text}" for found in case]
        outcomes[name] = "\n".join([*filter(None, [outcomes.get(name)]), *texts])
    return outcomes


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_on_a_connect_session(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""

"""Pythons that lack something, for workers: what a machine of a cluster may look like."""

from __future__ import annotations

import contextlib
import os
import site
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def interpreter(home: Path, *, sees: Sequence[str] = (), lacks: Sequence[str] = ()) -> Path:
    """A Python with a site of its own, where nothing is installed.

    Parameters
    ----------
    home : Path
        Where to make it.
    sees : sequence of str
        Directories to import from besides.
    lacks : sequence of str
        Modules that cannot be imported, wherever else they are found.
    """
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(
        "import sys\n"
        f"sys.path += {list(sees)!r}\n"
        f"sys.modules.update(dict.fromkeys({list(lacks)!r}))\n"
    )
    return home / "bin" / "python"


def everything() -> list[str]:
    """Where this process imports installed distributions and kstore from."""
    return [*site.getsitepackages(), str(ROOT), str(ROOT / "plugins")]


@contextlib.contextmanager
def workers_run(spark: SparkSession, python: Path | str) -> Iterator[None]:
    """Jobs that are planned within have workers of this interpreter."""
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(python)
    try:
        yield
    finally:
        context.pythonExec = before


def this_version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def run_killed(program: str) -> int:
    """Run a program that may end itself, and return its exit code."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode

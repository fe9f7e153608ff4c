"""The registry finds each engine, or says which binding to install."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest


def installed(engine: str) -> bool:
    return any(point.name == engine for point in metadata.entry_points(group="kstore.engines"))


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(
    ("engine", "name", "binding", "requirement"),
    [
        ("lmdb", "LMDBEngine", "lmdb", "'lmdb>=3.0,<4'"),
        ("rocksdb", "RocksDBEngine", "rocksdict", "'rocksdict>=0.3.29,<0.4'"),
    ],
)
def test_the_registry_finds_it_or_says_what_to_install(
    engine: str, name: str, binding: str, requirement: str, present: bool
) -> None:
    if not installed(engine):
        pytest.skip("the distribution is not installed")
    code = (
        "import sys\n"
        f"if not {present}:\n"
        f"    sys.modules[{binding!r}] = None\n"
        "from kstore_core.errors import EngineUnavailableError\n"
        "from kstore_core.discovery.registry import engine_class\n"
        "try:\n"
        f"    print(engine_class({engine!r}).__name__)\n"
        "except EngineUnavailableError as error:\n"
        "    print(error)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    if present:
        assert output == f"{name}\n"
    else:
        assert f"pip install {requirement}" in output

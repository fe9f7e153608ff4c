"""What messages and pages say to install: what pyproject.toml asks for, and never a stranger's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kstore_core.hints import EXTRAS, install, install_module
from kstore_core.spark.cluster import probe as cluster_probe
from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
OTHERS = {"all", "dev", "docs"}
"""What no message asks for."""
PLACES = ("kstore_core", "plugins", "docs", "README.md", "Makefile", "tests", "asv_benchmarks")
TEXTS = {".py", ".pyx", ".pyi", ".md", ".ipynb", ".toml", ".json", ""}

_INSTALLED = re.compile(r"pip install(?P<words>(?: +(?:--?[a-z-]+|'[^'\n]*'|[\w.-]+))+)")
_NESTED = re.compile(r"kstore\[([^]]*)\]")


def requirements(extra):
    """What an extra installs, those that it names included."""
    found = []
    for requirement in OPTIONAL[extra]:
        nested = _NESTED.fullmatch(requirement)
        parts = nested[1].split(",") if nested else ()
        found += [one for part in parts for one in requirements(part)] or [requirement]
    return found


def sources():
    for place in PLACES:
        path = ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix in TEXTS and file != Path(__file__):
                yield file


@pytest.mark.parametrize("extra", sorted(OPTIONAL.keys() - OTHERS))
def test_a_hint_asks_for_what_the_extra_does(extra):
    assert set(EXTRAS[extra]) == set(requirements(extra))
    command = install(extra)
    assert command.startswith("pip install '")
    assert re.findall(r"'([^']*)'", command) == [*dict.fromkeys(EXTRAS[extra])]


def test_no_extra_is_told_that_there_is_not():
    assert EXTRAS.keys() == OPTIONAL.keys() - OTHERS
    assert install("spark") == cluster_probe._SPARK


def test_several_extras_are_one_command():
    assert install("changelog", "kafka") == install("kafka")


@pytest.mark.parametrize(
    ("module", "requirement"),
    [
        ("rocksdict", "rocksdict"),
        ("pyspark.sql", "pyspark"),
        ("google_crc32c", "google-crc32c"),
        ("confluent_kafka", "confluent-kafka"),
        ("opentelemetry.metrics", "opentelemetry-api"),
        ("prometheus_client", "prometheus-client"),
        ("currency_converter", "CurrencyConverter"),
    ],
)
def test_a_missing_module_is_what_its_distribution_installs(module, requirement):
    wanted = [one for extra in OPTIONAL for one in OPTIONAL[extra] if one.startswith(requirement)]
    assert install_module(module) == f"pip install '{wanted[0]}'"


@pytest.mark.parametrize("module", ["nowhere", "", None, "kstore_core"])
def test_nothing_is_said_of_other_modules(module):
    assert install_module(module) == ""


def test_nothing_tells_to_install_what_is_not_kstores():
    known = {one for extra in OPTIONAL for one in OPTIONAL[extra]}
    wrong, seen = [], 0
    for file in sources():
        for found in _INSTALLED.finditer(file.read_text()):
            seen += 1
            for quoted in re.findall(r"'([^']*)'", found["words"]):
                clone = re.fullmatch(r"\.\[([a-z0-9,]+)\]", quoted)
                extras = clone[1].split(",") if clone else ()
                if not (quoted in known or (extras and OPTIONAL.keys() >= {*extras})):
                    wrong.append(f"{file.relative_to(ROOT)}: {found[0]}")
            if re.search(r"(?<![./-])\bkstore\b", found["words"]):
                wrong.append(f"{file.relative_to(ROOT)}: {found[0]}")
    assert seen > 15
    assert wrong == []

"""How Spark gets to know of ``format("kstore")``."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import ModuleInfo
from types import SimpleNamespace
from typing import Any

import pytest

from kstore_core.spark.runtime import registering


@pytest.mark.parametrize("listed", [True, False])
def test_what_spark_does_not_list_is_registered(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    session: Any = SimpleNamespace(dataSource=SimpleNamespace(register=found.append))
    names = ["pyspark_kstore", "pyspark_kstore_kafka"] if listed else []
    modules = [ModuleInfo(None, name, True) for name in names]  # type: ignore[arg-type]
    monkeypatch.setattr(registering, "iter_modules", lambda: modules)
    registering.register_hidden(session)
    assert [source.name() for source in found] == ([] if listed else ["kstore", "kstore-kafka"])


def python(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split("\n")[:-1]


def test_the_package_is_light() -> None:
    """Spark imports it in a new process at the first look-up of any Python data source."""
    heavy = {"pyarrow", "numpy", "pandas", "rocksdict", "lmdb", "kstore_rocksdb"}
    code = f"import pyspark_kstore, sys; print(sorted(set(sys.modules) & {heavy!r}))"
    assert python(code) == ["[]"]


def test_what_is_missing_is_told_by_who_uses_it_only() -> None:
    code = """
import sys
sys.modules["kstore_core"] = None
import pyspark_kstore
print(pyspark_kstore.DefaultSource.name())
try:
    pyspark_kstore.DefaultSource({})
except ImportError as error:
    print(error)
"""
    name, message = python(code)
    assert name == "kstore"
    assert message.startswith("Spark's Python cannot import kstore (ModuleNotFoundError: ")
    assert message.endswith("from a clone: pip install '.[spark,rocksdb]'")


def test_nobody_needs_pyspark_to_import_it() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
import pyspark_kstore
print(hasattr(pyspark_kstore, "DefaultSource"))
"""
    assert python(code) == ["False"]

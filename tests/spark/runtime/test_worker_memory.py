"""Objects of imported modules are left out of the garbage collections of Spark's processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from kstore_core.spark.runtime import worker_errors
from kstore_core.spark.runtime.worker_memory import freeze_modules

_PROGRAM = """
import gc
from kstore_core.spark.runtime.worker_memory import freeze_modules

freeze_modules()
first = gc.get_freeze_count()
kept = [[] for _ in range(1000)]
freeze_modules()
print(first > 10_000, gc.get_freeze_count() <= first, len(kept))
"""


def test_only_the_first_call_in_a_process_of_spark_has_an_effect() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["True", "True", "1000"]


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(gc, "freeze")
    monkeypatch.delattr(gc, "collect")
    freeze_modules()


def test_a_task_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(worker_errors, "freeze_modules", lambda: calls.append("frozen"))
    task = worker_errors.told(lambda items: (calls.append(item) or item for item in items))
    assert list(task(iter("ab"))) == ["a", "b"]
    assert calls == ["a", "b", "frozen"]

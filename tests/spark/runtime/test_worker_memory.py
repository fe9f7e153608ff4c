"""Objects of imported modules are left out of the garbage collections of Spark's processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kstore_core.spark.runtime.worker_errors import told
from kstore_core.spark.runtime.worker_memory import freeze_modules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

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


def test_other_processes_are_left_alone() -> None:
    before = gc.get_freeze_count()
    freeze_modules()
    assert gc.get_freeze_count() == before


def _counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import gc

    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})


def test_a_task_freezes_the_modules(spark: SparkSession) -> None:
    """After the tasks of the first job, the processes of Spark have frozen their objects."""
    rows = spark.range(0, 2, 1, 1)
    rows.mapInArrow(told(_counts), "frozen long").collect()
    (row,) = rows.mapInArrow(told(_counts), "frozen long").limit(1).collect()
    assert row.frozen > 10_000

"""The garbage collection of Spark's Python processes.

A process runs the tasks of many jobs, and after each task Spark calls ``gc.collect()``. This call
visits every object of the imported modules, which takes 10 to 30 ms after an import of PySpark,
PyArrow and NumPy. A short task takes hardly longer.
"""

from __future__ import annotations

import gc
import os

__all__ = ["WORKER", "freeze_modules"]

WORKER = "PYTHON_WORKER"
"""The value of the environment variable ``SPARK_PYTHON_RUNTIME`` in Spark's Python processes."""

_done = False


def freeze_modules() -> None:
    """Exclude the objects that exist now from all later garbage collections of a Spark process.

    Call the function after the imports of a task. Only the first call in a process has an effect.
    Outside of Spark's Python processes, the function has no effect.
    """
    global _done
    if _done or os.environ.get("SPARK_PYTHON_RUNTIME") != WORKER:
        return
    _done = True
    gc.collect()
    gc.freeze()

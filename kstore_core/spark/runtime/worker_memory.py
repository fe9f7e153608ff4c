"""The garbage collection of Spark's Python processes.

A process runs the tasks of many jobs, and after each task Spark calls ``gc.collect()``. This call
visits every object of the imported modules, which takes 10 to 30 ms after an import of PySpark,
PyArrow and NumPy. A short task takes hardly longer.
"""

from __future__ import annotations

import gc
import os

__all__ = ["freeze_modules", "is_worker"]

_RUNTIME = "SPARK_PYTHON_RUNTIME"
"""An environment variable of Spark, not of kstore. Spark sets it for its Python processes."""

_done = False


def is_worker() -> bool:
    """Return True if this process is a Python process of Spark, which runs tasks."""
    return os.environ.get(_RUNTIME) == "PYTHON_WORKER"


def freeze_modules() -> None:
    """Exclude the objects that exist now from all later garbage collections of a Spark process.

    Call the function at the end of a task, which has imported its modules. Only the first call in a
    process has an effect. Outside of Spark's Python processes, the function has no effect.
    """
    global _done
    if _done or not is_worker():
        return
    _done = True
    gc.collect()
    gc.freeze()

"""The daemon that forks Spark's Python processes, which imports in advance what they import.

Spark's own daemon imports no libraries, because some of them start threads. So each process imports
pandas and pyarrow, which takes longer than the work of most tests. After each task, a process also
collects garbage, and looks at all objects that its imports left.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib import import_module

if __name__ == "__main__":
    # The Python of a test may lack one of these. Only the processes of tasks use pandas.
    kstore = ("kstore_core.spark.source", "kstore_lmdb", "kstore_rocksdb")
    pandas = ["pandas"] if sys.argv[1] == "pyspark.worker" else []
    for module in (sys.argv[1], *pandas, "pyarrow", *kstore):
        with suppress(ImportError):
            import_module(module)
    gc.freeze()
    import_module("pyspark.installed_daemon").manager()

"""The time of imports, each in a new interpreter."""

from __future__ import annotations

import subprocess
import sys

from .sizes import sized

ROUNDS = sized(10, least=1)


def import_seconds(module: str) -> float:
    """Return the seconds of ``import module`` in a new interpreter."""
    code = (
        "import time; begin = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - begin)"
    )
    return float(subprocess.check_output([sys.executable, "-c", code]))


class Imports:
    """The least time of ten imports, in milliseconds."""

    params = (
        "kstore_core",
        "kstore_core.codec",
        "kstore_core.state",
        "kstore_memory",
        "kstore_rocksdb",
    )
    param_names = ("module",)
    unit = "ms"

    def track_import(self, module: str) -> float:
        found = [import_seconds(module) for _ in range(ROUNDS)]
        return min(found) * 1000

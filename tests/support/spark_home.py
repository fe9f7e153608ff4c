"""The installed Spark in a directory of its own, without its archives of Python modules.

Spark puts ``python/lib/pyspark.zip`` before all other paths of its Python processes. The archive
has no compiled modules, so each process would compile what it imports. A run of all tests starts
thousands of these processes. Without the archive, they import the installed modules.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["make_spark_home"]

_OF_A_CLUSTER = "work"  # which the executors of a local cluster make


def make_spark_home(home: Path) -> Path:
    """Fill the new directory ``home`` with links to the parts of the installed Spark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (installed,) = map(Path, spec.submodule_search_locations)
    home.mkdir(parents=True)
    for part in installed.iterdir():
        if part.name not in (_OF_A_CLUSTER, "python"):
            (home / part.name).symlink_to(part)
    return home

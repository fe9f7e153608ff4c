"""The installed Spark in a directory of its own, whose Python modules are compiled.

Spark puts ``python/lib/pyspark.zip`` and the archive of ``py4j`` before all other paths of its
Python processes. These archives have no compiled modules, so each process would compile what it
imports. A run of all tests starts thousands of these processes. Here, each archive is a directory
with links to the installed package, and the daemon that forks the processes is ``spark_daemon.py``.

The archive of MLlib is left out. A session loads what it finds of MLlib, which is a fifth of the
time that a driver takes to start. Only the server of Spark Connect needs it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tests.support import spark_daemon

__all__ = ["make_spark_home"]

_OWN = ("jars", "python", "work")  # the executors of a local cluster make the directory work
_MLLIB = "spark-mllib_"


def make_spark_home(home: Path, *, mllib: bool = False) -> Path:
    """Fill the new directory ``home`` with links to the parts of the installed Spark."""
    spark = _package("pyspark")
    home.mkdir(parents=True)
    for part in spark.iterdir():
        if part.name not in _OWN:
            (home / part.name).symlink_to(part)
    (home / "jars").mkdir()
    for jar in (spark / "jars").iterdir():
        if mllib or not jar.name.startswith(_MLLIB):
            (home / "jars" / jar.name).symlink_to(jar)
    for archive in (spark / "python" / "lib").glob("*.zip"):
        package = _package(archive.name.partition("-")[0].removesuffix(".zip"))
        path = home / "python" / "lib" / archive.name / package.name
        path.mkdir(parents=True)
        for part in package.iterdir():
            if part.name not in ("daemon.py", "__pycache__"):
                (path / part.name).symlink_to(part)
    python = home / "python" / "lib" / "pyspark.zip" / "pyspark"
    (python / "installed_daemon.py").symlink_to(spark / "daemon.py")
    (python / "daemon.py").symlink_to(Path(spark_daemon.__file__))
    return home


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(*spec.submodule_search_locations)

"""The registration of those data sources of kstore that Spark does not find.

Spark searches the directories of ``sys.path`` for packages ``pyspark_*``. After an editable
installation, kstore's packages are in none of these directories, because an import hook finds the
packages.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_hidden"]

_PACKAGES = ("pyspark_kstore", "pyspark_kstore_kafka")


def register_hidden(spark: SparkSession) -> None:
    """Register those data sources of kstore that Spark does not find."""
    listed = {module.name for module in iter_modules()}
    for package in _PACKAGES:
        if package not in listed and find_spec(package) is not None:
            spark.dataSource.register(import_module(package).DefaultSource)

"""Data sources that Spark does not find by itself, because it does not look where they are.

Spark lists the directories of the path for packages ``pyspark_*``. An editable installation lies in
none of them: its packages are found by an import hook.
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
    """Register kstore's data sources where they can be imported, and Spark would not find them."""
    listed = {module.name for module in iter_modules()}
    for package in _PACKAGES:
        if package not in listed and find_spec(package) is not None:
            spark.dataSource.register(import_module(package).DefaultSource)

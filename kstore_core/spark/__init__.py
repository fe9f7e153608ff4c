"""Partitioned stores for PySpark: restored from a changelog, read as DataFrames, joined as of time.

>>> from kstore_core import serdes, stores
>>> from kstore_core.spark import local_session, read_store, temporal_join, write_store

docs/spark.md shows them at work. Importing this package imports neither pyspark nor pyarrow.
"""

from kstore_core.spark.cluster import check_cluster
from kstore_core.spark.joining import temporal_join
from kstore_core.spark.manifest import Manifest
from kstore_core.spark.map_state import map_state
from kstore_core.spark.reading import read_store
from kstore_core.spark.session import local_session
from kstore_core.spark.writing import write_store

__all__ = [
    "Manifest",
    "check_cluster",
    "local_session",
    "map_state",
    "read_store",
    "temporal_join",
    "write_store",
]

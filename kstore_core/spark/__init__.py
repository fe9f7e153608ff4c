"""Partitioned stores for PySpark: restored from a changelog, read as DataFrames, joined as of time.

>>> from kstore_core import serdes, stores
>>> from kstore_core.spark import local_session, read_store, temporal_join, write_store

docs/spark.md shows them at work. Importing this package imports neither pyspark nor pyarrow.
"""

from kstore_core.spark.cluster import check_cluster
from kstore_core.spark.joining import temporal_join
from kstore_core.spark.joining_foreign import foreign_key_join
from kstore_core.spark.manifest import Manifest
from kstore_core.spark.map_state import map_state
from kstore_core.spark.partition_time import with_partition_time
from kstore_core.spark.placing import by_shard
from kstore_core.spark.reading import read_store
from kstore_core.spark.session import local_session
from kstore_core.spark.source.changes import read_changes
from kstore_core.spark.source.metadata import read_metadata
from kstore_core.spark.source.streams_dir import read_streams_dir
from kstore_core.spark.source.write_options import spec_json
from kstore_core.spark.streaming import stream_into
from kstore_core.spark.vacuum import Vacuumed, vacuum
from kstore_core.spark.verifying import verify_root
from kstore_core.spark.writing import write_store

__all__ = [
    "Manifest",
    "Vacuumed",
    "by_shard",
    "check_cluster",
    "foreign_key_join",
    "local_session",
    "map_state",
    "read_changes",
    "read_metadata",
    "read_store",
    "read_streams_dir",
    "spec_json",
    "stream_into",
    "temporal_join",
    "vacuum",
    "verify_root",
    "with_partition_time",
    "write_store",
]

"""Functions with which PySpark writes, reads and joins partitioned stores.

>>> from kstore_core import serdes, stores
>>> from kstore_core.spark import local_session, read_store, temporal_join, write_store

docs/spark.md has examples. Importing this package imports neither pyspark nor pyarrow.
"""

from kstore_core.spark.cluster.check import check_cluster
from kstore_core.spark.join.foreign_key import foreign_key_join
from kstore_core.spark.join.temporal import temporal_join
from kstore_core.spark.map_state.map_state import map_state
from kstore_core.spark.partition_time.with_partition_time import with_partition_time
from kstore_core.spark.read.changes import read_changes
from kstore_core.spark.read.metadata import read_metadata
from kstore_core.spark.read.read_store import read_store
from kstore_core.spark.read.streams_dir import read_streams_dir
from kstore_core.spark.rescale.rescale import Rescaled, rescale
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.vacuum import Vacuumed, vacuum
from kstore_core.spark.runtime.session import local_session
from kstore_core.spark.runtime.worker_errors import kstore_error
from kstore_core.spark.shards.routing import by_shard
from kstore_core.spark.source.write_options import spec_json
from kstore_core.spark.sql.as_of import register_as_of
from kstore_core.spark.sql.views import register_views
from kstore_core.spark.stream.stream_into import stream_into
from kstore_core.spark.subtopologies.fetch import fetch_tasks
from kstore_core.spark.subtopologies.run_on_spark import run_on_spark
from kstore_core.spark.verify.verify_root import verify_root
from kstore_core.spark.write.write_store import write_store

__all__ = [
    "Manifest",
    "Rescaled",
    "Vacuumed",
    "by_shard",
    "check_cluster",
    "fetch_tasks",
    "foreign_key_join",
    "kstore_error",
    "local_session",
    "map_state",
    "read_changes",
    "read_metadata",
    "read_store",
    "read_streams_dir",
    "register_as_of",
    "register_views",
    "rescale",
    "run_on_spark",
    "spec_json",
    "stream_into",
    "temporal_join",
    "vacuum",
    "verify_root",
    "with_partition_time",
    "write_store",
]

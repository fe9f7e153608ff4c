"""The data source ``format("kstore")``, with which Spark reads and writes stores.

Spark finds the data source through the package ``pyspark_kstore``, which is installed with kstore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from kstore_core.errors import UnsupportedError
from kstore_core.spark.runtime.worker_errors import without_traceback

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    from kstore_core.spark.read.plan import ReadPlan
    from kstore_core.spark.source.reader import StoreReader

__all__ = ["KStoreSource"]


class KStoreSource(DataSource):
    """The data source ``kstore``. docs/spark.md lists its options.

    If no option names a version, a DataFrame reads the version that was the newest when the user
    called ``load()``. ``load()`` calls :meth:`schema`, which plans the read. Spark pickles the plan
    together with this object.
    """

    _plan: ReadPlan | None = None

    @classmethod
    def name(cls) -> str:
        """Return ``"kstore"``, which users pass to ``format()``."""
        return "kstore"

    @without_traceback()
    def schema(self) -> StructType:
        """Return the columns that a read with these options returns."""
        from kstore_core.spark.shards.frames import spark_schema

        return spark_schema(self._planned().task.schema)

    @without_traceback()
    def reader(self, schema: StructType) -> StoreReader:
        """Return a reader that reads only the columns in ``schema``."""
        from kstore_core.spark.source.planning import only
        from kstore_core.spark.source.pushdown import scans_keep_their_filters
        from kstore_core.spark.source.reader import StoreReader

        plan = only(self._planned(), schema)
        return StoreReader(plan, takes_filters=scans_keep_their_filters())

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer that writes a new version of a store."""
        from kstore_core.spark.source.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    @without_traceback()
    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return a writer that writes the epochs of a stream into a store."""
        from kstore_core.spark.source.write_options import sink_options
        from kstore_core.spark.stream.sink import StreamSink

        return StreamSink(sink_options(self.options), schema, overwrite)

    # PySpark raises another error after this one, so only the traceback contains this text.
    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Raise an UnsupportedError, because Spark cannot read a store as a stream."""
        raise UnsupportedError(
            "a store cannot be read as a stream, because each version of a store is a complete "
            "table and not a sequence of changes. Read the changes between two versions with "
            'spark.read.format("kstore").option("changes", "true"), join a stream with '
            "kstore_core.spark.temporal_join, or read the changelog with Spark's Kafka source"
        )

    def _planned(self) -> ReadPlan:
        if self._plan is None:
            from kstore_core.spark.source.planning import plan_of

            self._plan = plan_of(self.options)
        return self._plan

"""``format("kstore")``: the data source with which Spark reads and writes stores.

Spark finds the data source through the package ``pyspark_kstore``, which is installed with kstore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from kstore_core.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    from kstore_core.spark.read.plan import ReadPlan
    from kstore_core.spark.source.reader import StoreReader

__all__ = ["KStoreSource"]


class KStoreSource(DataSource):
    """The data source ``kstore``; docs/spark.md lists the options.

    A DataFrame reads the version that was the newest when ``load()`` was called. At that time Spark
    asks for the schema, which makes the plan of the read. The plan is pickled with this object.
    """

    _plan: ReadPlan | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "kstore"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        from kstore_core.spark.shards.frames import spark_schema

        return spark_schema(self._planned().task.schema)

    def reader(self, schema: StructType) -> StoreReader:
        """Return the reader of the columns in ``schema``."""
        from kstore_core.spark.source.planning import only
        from kstore_core.spark.source.reader import StoreReader

        return StoreReader(only(self._planned(), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a new version of a store."""
        from kstore_core.spark.source.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802 - the name is Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of a stream into a store."""
        from kstore_core.spark.source.sink import StreamSink

        return StreamSink(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Raise UnsupportedError, because a store cannot be read as a stream."""
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

"""``format("kstore")``: stores as a source and as a sink of DataFrames and streams.

Spark finds it through the package ``pyspark_kstore`` that is installed with kstore.
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
    """Stores for Spark; docs/spark.md shows the options.

    A DataFrame reads the version that was newest at load time. Spark requests the schema then. The
    request makes the plan, which is pickled with this object.
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
        """Return the reader of all columns, or of some."""
        from kstore_core.spark.source.planning import only
        from kstore_core.spark.source.reader import StoreReader

        return StoreReader(only(self._planned(), schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a version of a store."""
        from kstore_core.spark.source.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802 - Spark calls it so
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of a stream into a store."""
        from kstore_core.spark.source.sink import StreamSink

        return StreamSink(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Raise an UnsupportedError: there is no stream reader."""
        raise UnsupportedError(
            "a store cannot be read as a stream: its versions are tables. Read the changes between "
            'two versions with spark.read.format("kstore").option("changes", "true"), join a '
            "stream with kstore_core.spark.temporal_join, or read the changelog with Spark's Kafka "
            "source"
        )

    def _planned(self) -> ReadPlan:
        if self._plan is None:
            from kstore_core.spark.source.planning import plan_of

            self._plan = plan_of(self.options)
        return self._plan

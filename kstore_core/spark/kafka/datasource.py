"""The data source class that Spark loads for ``format("kstore-kafka")``, and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from kstore_core.errors import SpecError
from kstore_core.spark.kafka.options import KafkaOptions
from kstore_core.spark.kafka.write_options import KafkaWriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["KafkaSource"]


class KafkaSource(DataSource):
    """The data source that reads and writes topics with the client library confluent-kafka.

    A read has the columns of Spark's own Kafka source. Spark finds this class through the package
    ``pyspark_kstore_kafka``.
    """

    @cached_property
    def _asked(self) -> KafkaOptions:
        return KafkaOptions.of(dict(self.options))

    @classmethod
    def name(cls) -> str:
        """Return the name of the data source, which users pass to ``format()``."""
        return "kstore-kafka"

    def schema(self) -> StructType:
        """Return the schema, which has the columns of Spark's own Kafka source.

        The schema has the column ``headers`` only if the option ``includeHeaders`` is true.
        """
        from kstore_core.spark.kafka.reading import arrow_schema
        from kstore_core.spark.shards.frames import spark_schema

        return spark_schema(arrow_schema(headers=self._asked.headers))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        self._asked.check_batch()
        self._check(schema)
        return _BatchReader(self._asked)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name is Spark's
        """Return the reader for ``spark.readStream``."""
        from kstore_core.spark.kafka.stream import KafkaStream

        self._asked.check_stream()
        self._check(schema)
        return KafkaStream(self._asked)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for ``df.write``."""
        from kstore_core.spark.kafka.writing import KafkaBatchWriter

        if overwrite:
            raise SpecError("mode('overwrite') cannot be used for a topic; use mode('append')")
        return KafkaBatchWriter(KafkaWriteOptions.of(dict(self.options)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - the name is Spark's
        """Return the writer for ``df.writeStream``."""
        from kstore_core.spark.kafka.writing import KafkaStreamWriter

        return KafkaStreamWriter(KafkaWriteOptions.of(dict(self.options)), schema)

    def _check(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise SpecError(
                f'format("kstore-kafka") has the columns {self.schema().simpleString()}, but '
                f".schema() was called with {schema.simpleString()}; leave out .schema(), and "
                "choose columns with .select()"
            )


class _BatchReader(DataSourceReader):
    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        from kstore_core.spark.kafka.planning import batch_ranges

        return [InputPartition(one) for one in batch_ranges(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kstore_core.spark.kafka.reading import read_range

        if partition.value is not None:  # If there are no ranges, Spark makes an empty partition.
            yield from read_range(self._options, partition.value)

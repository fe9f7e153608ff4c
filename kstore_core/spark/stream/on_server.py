"""The function that starts a stream on a Spark Connect server, with a sink for this stream only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.spark.runtime.worker_errors import without_traceback
from kstore_core.spark.stream.sink import SinkArguments, StreamSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from kstore_core.spark.stream.versions import Versions

__all__ = ["start_sink"]


def start_sink(
    df: DataFrame,
    versions: Versions,
    partition_time: bool,
    *,
    trigger: Mapping[str, Any] | None,
    name: str | None,
) -> StreamingQuery:
    """Start the sink that writes what :func:`stream_into` writes, and return its query.

    ``versions`` is the plan of the stream.
    """
    stream = versions.stream
    source = _source_of(
        SinkArguments(
            versions.root,
            versions.spec,
            stream.partitions,
            stream.partition_by,
            stream.engine,
            partition_time,
            versions.publish_every,
            versions.compact_every,
            stream.checkpoint,
        )
    )
    df.sparkSession.dataSource.register(source)
    writer = df.writeStream.format(source.name()).option("checkpointLocation", stream.checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()


def _source_of(arguments: SinkArguments) -> type[DataSource]:
    """Return a data source that contains the arguments of the sink of one stream.

    Spark sends the class to the server by pickle, so the spec may have any serdes. The options of a
    query, in contrast, must be texts. Spark Connect shows options in its event log and its web
    pages, so it would also show the credentials of an object store.
    """
    from pyspark.sql.datasource import DataSource

    unique = f"kstore-{uuid.uuid4().hex}"

    class OneStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def streamWriter(  # noqa: N802 - the name is Spark's
            self, schema: StructType, overwrite: bool
        ) -> DataSourceStreamArrowWriter:
            with without_traceback():
                return StreamSink(arguments, schema, overwrite)

    return OneStream

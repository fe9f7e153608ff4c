"""The start of a stream that runs on a Spark Connect server, through the sink ``kstore``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.spec import StoredSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from kstore_core.spark.stream.versions import Versions

__all__ = ["start_sink"]


def start_sink(
    df: DataFrame,
    root: str | os.PathLike[str],
    versions: Versions,
    partition_time: bool,
    *,
    trigger: Mapping[str, Any] | None,
    name: str | None,
) -> StreamingQuery:
    """Start the sink that writes what :func:`stream_into` writes, and return its query.

    ``versions`` is the plan of the stream. Raise an UnsupportedError if a serde of the store is not
    built in, because the sink gets the spec as a text.
    """
    stream = versions.stream
    options = {
        "path": os.fspath(root),
        "checkpointLocation": stream.checkpoint,
        "spec": json.dumps(versions.spec.describe()),
        "partitions": str(stream.partitions),
        "partition_by": stream.partition_by,
        "engine": stream.engine,
        "publish_every": str(versions.publish_every),
        "partition_time": str(partition_time).lower(),
    }
    try:
        StoredSpec.parse(options["spec"].encode()).spec()
    except SpecError as error:
        raise UnsupportedError(
            f"stream_into cannot describe the store {versions.spec.name!r} to a Spark Connect "
            f"server: {error}. Put the StoreSpec into a module that the server can import, and use "
            "df.writeStream.format('kstore') with the option spec='module:NAME'"
        ) from error
    writer = df.writeStream.format("kstore").options(**options)
    if trigger:
        writer = writer.trigger(**trigger)
    if name is not None:
        writer = writer.queryName(name)
    return writer.start()

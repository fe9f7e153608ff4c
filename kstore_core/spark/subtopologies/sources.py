"""The sources and the sinks of a topology on Spark, and the check of their topics and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from kstore_core.errors import SpecError
from kstore_core.processing import Sink, Topology
from kstore_core.spark.shards.frames import check_columns, headers_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["check_sinks", "check_sources", "columns_of", "records_of"]

_BYTES = ("binary", "string")
_NUMBERS = ("int", "bigint", "smallint", "tinyint")


def check_sources(topology: Topology, sources: Mapping[str, DataFrame]) -> None:
    """Raise SpecError if the topics or the columns of the sources do not fit the topology.

    Raises TypeError if a source is not a streaming DataFrame.
    """
    read, written = _topics(topology)
    _check_names("sources", sources, read, read - written, "a source of the topology reads")
    if not sources:
        raise SpecError("sources is empty; pass a streaming DataFrame for at least one topic")
    for topic, df in sources.items():
        if not getattr(df, "isStreaming", False):
            raise TypeError(
                f"the source of the topic {topic!r} must be a streaming DataFrame, not {df!r}. "
                "Read it with spark.readStream; trigger={'availableNow': True} processes the "
                "records that exist now, and stops"
            )
        optional: dict[str, tuple[str, ...]] = {
            "partition": _NUMBERS,
            "offset": _NUMBERS,
            "headers": (headers_type().simpleString(),),
        }
        allowed = {"key": _BYTES, "value": _BYTES, "timestamp": ("timestamp", "bigint")} | {
            name: kinds for name, kinds in optional.items() if name in df.columns
        }
        try:
            if ("partition" in allowed) != ("offset" in allowed):
                raise SpecError(
                    "it has only one of the columns 'partition' and 'offset'; pass both columns, "
                    "or none"
                )
            check_columns(df, allowed)
        except SpecError as error:
            raise SpecError(f"the source of the topic {topic!r} cannot be read: {error}") from None


def check_sinks(topology: Topology, sinks: Mapping[str, Any]) -> None:
    """Check the sinks of a topology.

    Raises SpecError if a topic that the topology writes but does not read has no sink, or if there
    is a sink for a topic that the topology does not write. Raises TypeError if a sink is neither a
    function nor None.
    """
    read, written = _topics(topology)
    _check_names("sinks", sinks, written, written - read, "a sink of the topology writes")
    for topic, sink in sinks.items():
        if sink is not None and not callable(sink):
            raise TypeError(
                f"the sink of the topic {topic!r} must be a function of a DataFrame and the number "
                f"of the micro-batch, or None, not {sink!r}"
            )


def _topics(topology: Topology) -> tuple[set[str], set[str]]:
    """Return the topics that the sources of a topology read, and those that its sinks write."""
    nodes = topology.nodes.values()
    read = {topic for part in topology.subtopologies for topic in part.sources}
    return read, {node.topic for node in nodes if isinstance(node, Sink)}


def _check_names(
    what: str, given: Iterable[str], known: set[str], needed: set[str], verb: str
) -> None:
    unknown, missing = sorted(set(given) - known), sorted(needed - set(given))
    if unknown:
        topics = ", ".join(map(repr, sorted(known))) or "none"
        raise SpecError(f"{what} names {unknown[0]!r}, which is no topic that {verb} ({topics})")
    if missing:
        raise SpecError(f"{what} does not name {missing[0]!r}, a topic that {verb}")


def records_of(sources: Mapping[str, DataFrame], *, wall_clock: bool) -> DataFrame:
    """Return the records of all sources with the columns of `kstore_core.spark.subtopologies.rows`.

    If ``wall_clock`` is true, each trigger has a micro-batch, even without a record.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frames = [df.select(columns_of(topic, df)) for topic, df in sources.items()]
    if wall_clock:
        ticks = frames[0].sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
        empty = ticks.where(F.lit(False)).select(
            F.lit(b"").alias("key"), F.lit(b"").alias("value"), "timestamp"
        )
        frames.append(empty.select(columns_of("", empty)))
    return reduce(type(frames[0]).unionByName, frames)


def columns_of(topic: str, df: DataFrame) -> list[Column]:
    """Return the columns of the records of a topic."""
    from pyspark.sql import functions as F  # noqa: N812

    types = dict(df.dtypes)

    def optional(name: str, kind: Any) -> Column:
        return (F.col(name) if name in types else F.lit(None)).cast(kind).alias(name)

    time = F.unix_millis("timestamp") if types["timestamp"] == "timestamp" else F.col("timestamp")
    return [
        F.lit(topic).alias("topic"),
        optional("partition", "int"),
        optional("offset", "bigint"),
        time.alias("timestamp"),
        *(F.col(name).cast("binary").alias(name) for name in ("key", "value")),
        optional("headers", headers_type()),
    ]

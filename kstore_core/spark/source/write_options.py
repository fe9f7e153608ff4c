"""The options of ``df.write.format("kstore")``, and the text for the option ``spec``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kstore_core.errors import SpecError
from kstore_core.spark.source.parsing import Option, by_name, parse_options
from kstore_core.spark.source.texts import count_of, flag_of, one_of, spec_of, text_of
from kstore_core.spec import StoredSpec, StoreSpec

__all__ = [
    "SINK_OPTIONS",
    "WRITE_OPTIONS",
    "WriteOptions",
    "sink_options",
    "spec_json",
    "write_options",
]


def spec_json(spec: StoreSpec) -> str:
    """Return the description of a store as JSON, for the option ``spec`` of ``format("kstore")``.

    Raises
    ------
    SpecError
        A serde of the store is not built in, so another process cannot find the serde by its
        name. Put the StoreSpec into a module, and pass ``module:NAME`` as the option.

    Examples
    --------
    >>> from kstore_core import stores
    >>> spec_json(stores.key_value("orders"))
    '{"version":1,"name":"orders","shape":"key_value","format":"plain","key":"bytes","value":"bytes"}'
    """
    text = json.dumps(spec.describe(), separators=(",", ":"))
    try:
        StoredSpec.parse(text.encode()).spec()
    except SpecError as error:
        raise SpecError(
            f"the store {spec.name!r} cannot be described in JSON: {error}. Put its StoreSpec "
            "into a module, and pass its name: .option('spec', 'module:NAME')"
        ) from error
    return text


WRITE_OPTIONS = by_name(
    Option(
        "spec",
        spec_of,
        "JSON in the format of the manifest, or module:NAME of a StoreSpec",
        "the description of the store; needed for a new root",
    ),
    Option(
        "partitions",
        count_of,
        "a number of 1 or more",
        "the number of shards; needed for a new root",
    ),
    Option(
        "partition_by",
        one_of("key", "partition"),
        "key or partition",
        "chooses a record's shard by the murmur2 hash of the key (`key`) or by the column "
        "`partition`; by default by that column if the DataFrame has it",
    ),
    Option(
        "engine",
        text_of,
        "the name of an engine",
        "the engine of the shards; by default the engine of the newest version, or rocksdb for a "
        "new root",
    ),
    Option(
        "partition_time",
        flag_of,
        "true or false",
        "whether the [header](partition-time.md) `partition-time` of the records also advances "
        "stream time",
    ),
)
"""The options of a write by name, without ``path`` and ``storage.…``."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = (_CHECKPOINT, "queryname", "outputmode")
SINK_OPTIONS = WRITE_OPTIONS | by_name(
    Option(
        "publish_every",
        count_of,
        "a number of 1 or more",
        "the number of epochs after which a version is published",
    )
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of one write, or of the sink of a stream."""

    path: str
    storage: Mapping[str, str]  # options of the object store
    spec: StoreSpec | None = None
    partitions: int | None = None
    partition_by: str | None = None
    engine: str | None = None
    partition_time: bool = False
    publish_every: int = 1  # the number of epochs after which a version is published
    checkpoint: str = ""  # the stream's checkpoint; empty if the session sets it


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write. The exceptions are those of :func:`parse_options`."""
    parsed = parse_options(given, WRITE_OPTIONS, "write")
    return WriteOptions(parsed.path, parsed.storage, **parsed.values)


def sink_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a stream's sink. The exceptions are those of :func:`parse_options`."""
    texts = {name.lower(): text for name, text in given.items()}
    of_sink = {name: text for name, text in texts.items() if name not in _OF_SPARK}
    parsed = parse_options(of_sink, SINK_OPTIONS, "write")
    checkpoint = texts.get(_CHECKPOINT, "")
    return WriteOptions(parsed.path, parsed.storage, **parsed.values, checkpoint=checkpoint)

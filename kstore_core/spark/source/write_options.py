"""The options of ``df.write.format("kstore")``, and a store's description as one of them."""

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
    """Describe a store as text, for the option ``spec`` of ``format("kstore")``.

    Raises
    ------
    SpecError
        A serde is not built in, so another process cannot find it by its name. Pass
        ``module:NAME`` as the option instead.

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
        "describes the store; needed for a new root",
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
        "assigns a record to its shard by the murmur2 hash of its key (`key`) or by its column "
        "`partition`; by default by the column, if it exists",
    ),
    Option(
        "engine",
        text_of,
        "the name of an engine",
        "the engine of the shards; by default that of the newest version, or rocksdb",
    ),
    Option(
        "partition_time",
        flag_of,
        "true or false",
        "also advances stream time by the [header](partition-time.md) `partition-time` of the "
        "records",
    ),
)
"""The options of a write, beside ``path`` and ``storage.…``."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = (_CHECKPOINT, "queryname", "outputmode")
SINK_OPTIONS = WRITE_OPTIONS | by_name(
    Option(
        "publish_every",
        count_of,
        "a number of 1 or more",
        "the number of epochs in each published version",
    )
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, or of a stream's sink."""

    path: str
    storage: Mapping[str, str]  # options of the object store
    spec: StoreSpec | None = None
    partitions: int | None = None
    partition_by: str | None = None
    engine: str | None = None
    partition_time: bool = False
    publish_every: int = 1  # the number of epochs in each published version
    checkpoint: str = ""  # of the stream; empty if the session sets it


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write; errors as of :func:`parse_options`."""
    parsed = parse_options(given, WRITE_OPTIONS, "write")
    return WriteOptions(parsed.path, parsed.storage, **parsed.values)


def sink_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a stream's sink; errors as of :func:`parse_options`."""
    texts = {name.lower(): text for name, text in given.items()}
    of_sink = {name: text for name, text in texts.items() if name not in _OF_SPARK}
    parsed = parse_options(of_sink, SINK_OPTIONS, "write")
    checkpoint = texts.get(_CHECKPOINT, "")
    return WriteOptions(parsed.path, parsed.storage, **parsed.values, checkpoint=checkpoint)

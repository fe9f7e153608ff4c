"""The options of ``df.write.format("kstore")``, and the text for the option ``spec``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstore_core.errors import SpecError
from kstore_core.spark.source.parsing import Option, by_name, parse_options
from kstore_core.spark.source.texts import count_of, flag_of, one_of, spec_of, text_of
from kstore_core.spec import StoredSpec, StoreSpec

if TYPE_CHECKING:
    from kstore_core.spark.stream.sink import SinkArguments

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
        A serde of the store is not built in, so another process cannot find it by its name. Put the
        StoreSpec into a module, and pass ``module:NAME`` as the option.

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
            f"the store {spec.name!r} cannot be described in JSON: {error}. Put the StoreSpec "
            "into a variable of a module, and pass .option('spec', 'module:NAME')"
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
        "what selects the shard of a record: the murmur2 hash of its key (`key`) or the column "
        "`partition` (`partition`); by default `partition` if the DataFrame has this column, "
        "otherwise `key`",
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
    Option(
        "run_bytes",
        count_of,
        "a number of 1 or more",
        "the greatest size in bytes of the records that a task restores in one run, by default "
        "134217728; if a shard gets more records, the task uses temporary files and several runs",
    ),
)
"""The options of a batch write by name, except ``path`` and ``storage.…``."""

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = (_CHECKPOINT, "queryname", "outputmode")
_OF_BATCHES = ("run_bytes",)
"""The options of a batch write that the sink of a stream does not have."""

SINK_OPTIONS = {name: o for name, o in WRITE_OPTIONS.items() if name not in _OF_BATCHES} | by_name(
    Option(
        "publish_every",
        count_of,
        "a number of 1 or more",
        "the number of epochs after which a version is published",
    ),
    Option(
        "compact_every",
        count_of,
        "a number of 1 or more",
        "on an object store, the number of files of changes after which a full checkpoint of a "
        "live shard may replace them",
    ),
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of a batch write."""

    path: str
    storage: Mapping[str, str]  # options of the object store
    spec: StoreSpec | None = None
    partitions: int | None = None
    partition_by: str | None = None
    engine: str | None = None
    partition_time: bool = False
    run_bytes: int | None = None  # the size of a run in bytes; None for the default


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a batch write. Raise the same errors as :func:`parse_options`."""
    parsed = parse_options(given, WRITE_OPTIONS, "write")
    return WriteOptions(parsed.path, parsed.storage, **parsed.values)


def sink_options(given: Mapping[str, str]) -> SinkArguments:
    """Parse the options of a stream's sink.

    Raise the same errors as :func:`parse_options` and :meth:`Root.at`.
    """
    from kstore_core.spark.root.root import Root
    from kstore_core.spark.stream.sink import SinkArguments

    texts = {name.lower(): text for name, text in given.items()}
    of_sink = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    parsed = parse_options(of_sink, SINK_OPTIONS, "write")
    root = Root.at(parsed.path, parsed.storage)
    return SinkArguments(root, **parsed.values, checkpoint=texts.get(_CHECKPOINT, ""))

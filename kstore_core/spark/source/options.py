"""The options of ``spark.read.format("kstore")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kstore_core.errors import SpecError
from kstore_core.spark.source.parsing import Option, ParsedOptions, by_name, parse_options
from kstore_core.spark.source.texts import (
    flag_of,
    list_of,
    names_of,
    number_of,
    numbers_of,
    one_of,
    spec_of,
    text_of,
    time_of,
)

__all__ = [
    "CHANGES",
    "META",
    "METADATA",
    "READ_OPTIONS",
    "RECORDS",
    "STREAMS",
    "ReadOptions",
    "read_options",
]

METADATA = ("stores", "shards", "versions", "offsets", "files")
"""The names of the tables that the option ``metadata`` can return."""

RECORDS, CHANGES, META, STREAMS = "records", "changes", "metadata", "streams_dir"


@dataclass(frozen=True, slots=True)
class ReadOptions(ParsedOptions):
    """The parsed options of one read.

    ``mode`` is the kind of read. It is ``"changes"``, ``"metadata"`` or ``"streams_dir"`` if the
    user has set the option with this name, and otherwise ``"records"``. ``values`` never contains
    the options ``changes`` and ``streams_dir``.
    """

    mode: str


_TIME = "milliseconds since the epoch, or ISO 8601 with a UTC offset"
_FLAG = "true or false"
_SHAPED = (RECORDS, CHANGES, STREAMS)
_CHOSEN = (RECORDS, STREAMS)
_VERSIONED = (RECORDS, CHANGES, META)

READ_OPTIONS = by_name(
    Option(
        "store",
        text_of,
        "a name",
        "the store to read; needed if `path` contains several stores",
        _VERSIONED,
    ),
    Option(
        "version",
        number_of,
        "a number",
        "the version to read; by default the newest version",
        (RECORDS, META),
    ),
    Option(
        "as_of",
        time_of,
        _TIME,
        "reads the version of each key that was valid at this time",
        _CHOSEN,
    ),
    Option("history", flag_of, _FLAG, "reads all versions of each key", _CHOSEN),
    Option(
        "from",
        time_of,
        _TIME,
        "omits windows and sessions that end before this time; with `history`, omits such "
        "versions, too",
        _CHOSEN,
    ),
    Option(
        "to",
        time_of,
        _TIME,
        "omits windows and sessions that begin after this time; with `history`, omits such "
        "versions, too",
        _CHOSEN,
    ),
    Option(
        "key",
        str,
        "a key",
        "reads only the records of this key, and opens only its shard",
        _CHOSEN,
    ),
    Option("keys", list_of, "a JSON list of keys", "reads only the records of these keys", _CHOSEN),
    Option(
        "prefix",
        str,
        "the beginning of a key",
        "reads only the keys that begin with this text",
        _CHOSEN,
    ),
    Option(
        "partitions",
        numbers_of,
        "numbers, separated by commas",
        "reads only these shards",
        _SHAPED,
    ),
    Option(
        "columns",
        names_of,
        "names, separated by commas",
        "returns only these columns, in this order, and decodes no other column",
        _SHAPED,
    ),
    Option("headers", flag_of, _FLAG, "whether to include the column of headers", _SHAPED),
    Option(
        "timestamps",
        one_of("timestamp", "millis"),
        "timestamp or millis",
        "whether times are Spark timestamps or longs (milliseconds)",
        _SHAPED,
    ),
    Option(
        "spec",
        spec_of,
        "JSON in the format of the manifest, or module:NAME of a StoreSpec",
        "the description of the store; needed if a serde is not built in, or if Kafka Streams "
        "wrote the store",
        _SHAPED,
    ),
    Option("changes", flag_of, _FLAG, "reads the changes between two versions", (CHANGES,)),
    Option(
        "from_version",
        number_of,
        "a number",
        "the older of the two versions; 0 means the empty store",
        (CHANGES,),
    ),
    Option(
        "to_version",
        number_of,
        "a number",
        "the newer of the two versions; by default the newest version",
        (CHANGES,),
    ),
    Option(
        "metadata",
        one_of(*METADATA),
        ", ".join(METADATA),
        "returns this table of metadata instead of records",
        (META,),
    ),
    Option(
        "streams_dir",
        flag_of,
        _FLAG,
        "reads `path` as the state directory of a Kafka Streams application",
        (STREAMS,),
    ),
)
"""The options of a read by name, except ``path`` and the options with the prefix ``storage.``."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check and parse the options of a read.

    Raise a SpecError if :func:`parse_options` finds a fault, or if two options cannot be combined.
    Also raise a SpecError if the options are those of a table in Spark's catalog.
    """
    if {"provider", "owner"} <= {name.lower() for name in given}:
        raise SpecError(
            "kstore cannot read a table in Spark's catalog, because Spark does not pass the "
            "table's options and path to a Python data source; use CREATE TEMPORARY VIEW … "
            "USING kstore OPTIONS (path '…'), or DataFrame.createTempView"
        )
    parsed = parse_options(given, READ_OPTIONS, "read")
    values = {
        name: value
        for name, value in parsed.values.items()
        if value or name not in (CHANGES, STREAMS)
    }
    asked = [name for name in (CHANGES, META, STREAMS) if name in values]
    if len(asked) > 1:
        raise SpecError(
            f"the options {asked[0]!r} and {asked[1]!r} cannot be combined; pass only one of them"
        )
    mode = asked[0] if asked else RECORDS
    for name in values:
        if mode not in READ_OPTIONS[name].modes:
            raise SpecError(
                f"the option {name!r} cannot be combined with {_READS[mode]}; it can be used "
                f"with {' or '.join(_READS[other] for other in READ_OPTIONS[name].modes)}"
            )
    values.pop(mode if mode != META else "", None)
    return ReadOptions(parsed.path, parsed.storage, values, mode)


_READS = {
    RECORDS: "a read of records",
    CHANGES: "changes=true",
    META: "metadata",
    STREAMS: "streams_dir=true",
}

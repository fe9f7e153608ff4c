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
"""The tables of metadata."""

RECORDS, CHANGES, META, STREAMS = "records", "changes", "metadata", "streams_dir"


@dataclass(frozen=True, slots=True)
class ReadOptions(ParsedOptions):
    """The options of one read; ``values`` lacks the flag that chooses the mode."""

    mode: str


_TIME = "milliseconds since the epoch, or ISO 8601 with a UTC offset"
_FLAG = "true or false"
_SHAPED = (RECORDS, CHANGES, STREAMS)
_CHOSEN = (RECORDS, STREAMS)
_VERSIONED = (RECORDS, CHANGES, META)

READ_OPTIONS = by_name(
    Option("store", text_of, "a name", "reads this store, if `path` contains several", _VERSIONED),
    Option(
        "version",
        number_of,
        "a number",
        "reads this version instead of the newest",
        (RECORDS, META),
    ),
    Option("as_of", time_of, _TIME, "reads the versions that are valid at that time", _CHOSEN),
    Option("history", flag_of, _FLAG, "reads all versions", _CHOSEN),
    Option(
        "from",
        time_of,
        _TIME,
        "leaves out versions of a history, windows and sessions that end before that time",
        _CHOSEN,
    ),
    Option(
        "to",
        time_of,
        _TIME,
        "leaves out versions of a history, windows and sessions that begin after that time",
        _CHOSEN,
    ),
    Option(
        "key",
        str,
        "a key",
        "reads the records of one key; opens only the shard of that key",
        _CHOSEN,
    ),
    Option("keys", list_of, "a JSON list of keys", "reads the records of these keys", _CHOSEN),
    Option(
        "prefix", str, "the beginning of a key", "reads the keys that begin with this text", _CHOSEN
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
        "returns only these columns, in this order; other columns are not decoded",
        _SHAPED,
    ),
    Option("headers", flag_of, _FLAG, "includes or omits the column of headers", _SHAPED),
    Option(
        "timestamps",
        one_of("timestamp", "millis"),
        "timestamp or millis",
        "returns times as Spark timestamps, or as longs in milliseconds",
        _SHAPED,
    ),
    Option(
        "spec",
        spec_of,
        "JSON in the format of the manifest, or module:NAME of a StoreSpec",
        "describes the store; needed if a serde is not built in, or if Kafka Streams wrote the "
        "store",
        _SHAPED,
    ),
    Option("changes", flag_of, _FLAG, "reads the changes between two versions", (CHANGES,)),
    Option(
        "from_version",
        number_of,
        "a number",
        "the older of the two versions; 0 is the empty store",
        (CHANGES,),
    ),
    Option(
        "to_version",
        number_of,
        "a number",
        "the newer of the two versions; by default the newest",
        (CHANGES,),
    ),
    Option(
        "metadata",
        one_of(*METADATA),
        ", ".join(METADATA),
        "returns fields of the manifests instead of records",
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
"""The options by name, except ``path`` and those that begin with ``storage.``."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check and parse the options of a read.

    A SpecError as of :func:`parse_options`, if options exclude each other, or for a table in
    Spark's catalog.
    """
    if {"provider", "owner"} <= {name.lower() for name in given}:
        raise SpecError(
            "a table in Spark's catalog loses the options of a Python data source, also the path, "
            "before a query reads it; use CREATE TEMPORARY VIEW … USING kstore OPTIONS (path '…'), "
            "or DataFrame.createTempView"
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
            f"the options {asked[0]!r} and {asked[1]!r} select different reads; pass one"
        )
    mode = asked[0] if asked else RECORDS
    for name in values:
        if mode not in READ_OPTIONS[name].modes:
            raise SpecError(
                f"the option {name!r} cannot be combined with {_READS[mode]}; it is for "
                f"{' and '.join(_READS[other] for other in READ_OPTIONS[name].modes)}"
            )
    values.pop(mode if mode != META else "", None)
    return ReadOptions(parsed.path, parsed.storage, values, mode)


_READS = {
    RECORDS: "a read of records",
    CHANGES: "changes=true",
    META: "metadata",
    STREAMS: "streams_dir=true",
}

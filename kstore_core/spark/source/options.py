"""The options of ``spark.read.format("kstore")``: their names, their values, what each is for.

Spark hands options over as text, and their names in lower case. A name or a value that makes no
sense is refused when the DataFrame is made; nothing is ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.spark.root.storage.addresses import is_relative
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
    "STORAGE",
    "STREAMS",
    "Option",
    "ReadOptions",
    "read_options",
]

METADATA = ("stores", "shards", "versions", "offsets", "files")
"""What there is to read of a store beside its records."""

STORAGE = "storage."
"""What the options of an object store begin with."""

RECORDS, CHANGES, META, STREAMS = "records", "changes", "metadata", "streams_dir"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a read.

    Attributes
    ----------
    name : str
    parse : callable
        From its text to its value; a ValueError says what is wrong.
    wants : str
        What the text is, for messages and for the documentation.
    meaning : str
    modes : tuple of str
        What it may be given with: records, changes, metadata, the directory of an application.
    """

    name: str
    parse: Callable[[str], Any]
    wants: str
    meaning: str
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read.

    Attributes
    ----------
    path : str
    mode : str
        One of :attr:`Option.modes`.
    values : mapping of str to object
        Values by option, but for those that choose the mode.
    storage : mapping of str to str
        Options of the object store.
    """

    path: str
    mode: str
    values: Mapping[str, Any]
    storage: Mapping[str, str]


_TIME = "milliseconds since the epoch, or ISO 8601 with its offset"
_FLAG = "true or false"
_SHAPED = (RECORDS, CHANGES, STREAMS)
_CHOSEN = (RECORDS, STREAMS)
_VERSIONED = (RECORDS, CHANGES, META)

READ_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("store", text_of, "a name", "which store, where `path` holds several", _VERSIONED),
        Option(
            "version", number_of, "a number", "another version than the newest", (RECORDS, META)
        ),
        Option("as_of", time_of, _TIME, "the versions valid at that time", _CHOSEN),
        Option("history", flag_of, _FLAG, "every version that is kept", _CHOSEN),
        Option(
            "from",
            time_of,
            _TIME,
            "of a history, of windows and of sessions: those with a moment from then on",
            _CHOSEN,
        ),
        Option("to", time_of, _TIME, "those with a moment until then, inclusive", _CHOSEN),
        Option("key", str, "a key", "the records of one key; only its shard is opened", _CHOSEN),
        Option("keys", list_of, "a JSON list of keys", "the records of these keys", _CHOSEN),
        Option("prefix", str, "the beginning of a key", "the keys that begin like this", _CHOSEN),
        Option(
            "partitions",
            numbers_of,
            "numbers, with commas between them",
            "only these shards",
            _SHAPED,
        ),
        Option(
            "columns",
            names_of,
            "names, with commas between them",
            "only these columns, in this order; what is left out is not decoded",
            _SHAPED,
        ),
        Option("headers", flag_of, _FLAG, "whether there is a column of headers", _SHAPED),
        Option(
            "timestamps",
            one_of("timestamp", "millis"),
            "timestamp or millis",
            "times as Spark timestamps, or as longs",
            _SHAPED,
        ),
        Option(
            "spec",
            spec_of,
            "JSON as in the manifest, or module:NAME of a StoreSpec",
            "the store's description, where its serdes are not built in or Kafka wrote it",
            _SHAPED,
        ),
        Option("changes", flag_of, _FLAG, "what changed between two versions", (CHANGES,)),
        Option("from_version", number_of, "a number", "the older of the two; 0: none", (CHANGES,)),
        Option("to_version", number_of, "a number", "the newer one, or the newest", (CHANGES,)),
        Option(
            "metadata",
            one_of(*METADATA),
            ", ".join(METADATA),
            "what the manifests say, instead of records",
            (META,),
        ),
        Option(
            "streams_dir",
            flag_of,
            _FLAG,
            "whether `path` is the state directory of a Kafka Streams application",
            (STREAMS,),
        ),
    )
}
"""The options by name; ``path`` and what begins with ``storage.`` beside them."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read, checked.

    Raises
    ------
    SpecError
        An unknown option, a value that it does not take, one that does not go with another; no
        path, several, or a relative one; a table in Spark's catalog.
    """
    texts = {name.lower(): text for name, text in given.items()}
    if {"provider", "owner"} <= texts.keys():
        raise SpecError(_NO_TABLE)
    path = _path(texts)
    storage = {name[len(STORAGE) :]: text for name, text in given.items() if _is_storage(name)}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name in ("path", "paths") or _is_storage(name):
            continue
        option = READ_OPTIONS.get(name)
        if option is None:
            raise SpecError(_unknown(name))
        try:
            value = option.parse(text)
        except ValueError as error:
            raise SpecError(f"the option {name}={text!r} is not {option.wants}: {error}") from error
        if name not in (CHANGES, STREAMS) or value:
            values[name] = value
    mode = _mode(values)
    for name in values:
        if mode not in READ_OPTIONS[name].modes:
            raise SpecError(
                f"the option {name!r} does not go with {_ASKED[mode]}; it is for "
                f"{' and '.join(_ASKED[other] for other in READ_OPTIONS[name].modes)}"
            )
    values.pop(mode if mode != META else "", None)
    return ReadOptions(path, mode, values, storage)


_ASKED = {
    RECORDS: "a read of records",
    CHANGES: "changes=true",
    META: "metadata",
    STREAMS: "streams_dir=true",
}


_NO_TABLE = (
    "a table in Spark's catalog forgets the options of a Python data source, the path among them, "
    "before it is queried; use CREATE TEMPORARY VIEW … USING kstore OPTIONS (path '…'), or "
    "DataFrame.createTempView"
)


def _is_storage(name: str) -> bool:
    return name.lower().startswith(STORAGE)


def _unknown(name: str) -> str:
    known = ["path", *READ_OPTIONS]
    near = difflib.get_close_matches(name, known, 1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return (
        f"a read of kstore has no option {name!r}. {meant}There are: {', '.join(known)}, and "
        f"{STORAGE}… for the object store"
    )


def _mode(values: Mapping[str, Any]) -> str:
    asked = [name for name in (CHANGES, META, STREAMS) if name in values]
    if len(asked) > 1:
        raise SpecError(f"the options {asked[0]!r} and {asked[1]!r} are two reads; ask for one")
    return asked[0] if asked else RECORDS


def _path(texts: Mapping[str, str]) -> str:
    if "paths" in texts:
        raise SpecError(
            f"one read is of one root, not of the paths {texts['paths']}; read each by itself and "
            "put them together with DataFrame.unionByName"
        )
    path = texts.get("path", "")
    if not path:
        raise SpecError('there is no path; pass the root of a store: .load("/where/it/is")')
    if is_relative(path):
        raise SpecError(
            f"the path {path!r} is relative, and Spark's processes stand in directories of their "
            "own; pass an absolute one"
        )
    return path

"""The options of ``spark.read.format("kstore")``: their names, their values, what each is for.

Spark hands options over as text, and their names in lower case. A name or a value that makes no
sense is refused when the DataFrame is made; nothing is ignored.
"""

from __future__ import annotations

import difflib
import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from kstore_core import serdes
from kstore_core.errors import SpecError
from kstore_core.spark.source.selection import key_bytes
from kstore_core.spec import StoredSpec, StoreSpec
from kstore_core.types import to_millis

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
    "key_of",
    "key_of_json",
    "prefix_of",
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


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _flag(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("it is neither") from None


def _time(text: str) -> int:
    text = text.strip()
    if re.fullmatch(r"-?\d+", text):
        return to_millis(int(text))
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() is None:
        raise ValueError("it has no offset, so its instant is not known; add Z or +01:00")
    return to_millis(moment)


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise ValueError("it is none")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _list(text: str) -> list[Any]:
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError(f"it is JSON, but a {type(found).__name__}")
    return found


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("it is none of them")
        return text

    return parse


def _spec(text: str) -> StoreSpec:
    """A description as a manifest keeps it, or the place of one in a Python module."""
    if text.lstrip().startswith("{"):
        return StoredSpec.parse(text.encode()).spec()
    module, _, name = text.partition(":")
    if not name:
        raise ValueError("it is neither")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{error}; the module has to be installed for Spark's Python") from error
    if not isinstance(found, StoreSpec):
        raise ValueError(f"that is a {type(found).__name__}, not a StoreSpec")
    return found


_TIME = "milliseconds since the epoch, or ISO 8601 with its offset"
_FLAG = "true or false"
_SHAPED = (RECORDS, CHANGES, STREAMS)
_CHOSEN = (RECORDS, STREAMS)
_VERSIONED = (RECORDS, CHANGES, META)

READ_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("store", _text, "a name", "which store, where `path` holds several", _VERSIONED),
        Option("version", _number, "a number", "another version than the newest", (RECORDS, META)),
        Option("as_of", _time, _TIME, "the versions valid at that time", _CHOSEN),
        Option("history", _flag, _FLAG, "every version that is kept", _CHOSEN),
        Option(
            "from",
            _time,
            _TIME,
            "of a history, of windows and of sessions: those with a moment from then on",
            _CHOSEN,
        ),
        Option("to", _time, _TIME, "those with a moment until then, inclusive", _CHOSEN),
        Option("key", str, "a key", "the records of one key; only its shard is opened", _CHOSEN),
        Option("keys", _list, "a JSON list of keys", "the records of these keys", _CHOSEN),
        Option("prefix", str, "the beginning of a key", "the keys that begin like this", _CHOSEN),
        Option(
            "partitions",
            _numbers,
            "numbers, with commas between them",
            "only these shards",
            _SHAPED,
        ),
        Option(
            "columns",
            _names,
            "names, with commas between them",
            "only these columns, in this order; what is left out is not decoded",
            _SHAPED,
        ),
        Option("headers", _flag, _FLAG, "whether there is a column of headers", _SHAPED),
        Option(
            "timestamps",
            _one_of("timestamp", "millis"),
            "timestamp or millis",
            "times as Spark timestamps, or as longs",
            _SHAPED,
        ),
        Option(
            "spec",
            _spec,
            "JSON as in the manifest, or module:NAME of a StoreSpec",
            "the store's description, where its serdes are not built in or Kafka wrote it",
            _SHAPED,
        ),
        Option("changes", _flag, _FLAG, "what changed between two versions", (CHANGES,)),
        Option("from_version", _number, "a number", "the older of the two; 0: none", (CHANGES,)),
        Option("to_version", _number, "a number", "the newer one, or the newest", (CHANGES,)),
        Option(
            "metadata",
            _one_of(*METADATA),
            ", ".join(METADATA),
            "what the manifests say, instead of records",
            (META,),
        ),
        Option(
            "streams_dir",
            _flag,
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
        path, several, or a relative one.
    """
    texts = {name.lower(): text for name, text in given.items()}
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
    if not path.startswith("/") and not urlsplit(path).scheme:
        raise SpecError(
            f"the path {path!r} is relative, and Spark's processes stand in directories of their "
            "own; pass an absolute one"
        )
    return path


def key_of(spec: StoreSpec, text: str) -> bytes:
    """The bytes of a key that is given as text.

    Text is what the store's serde reads: numbers as they are written, JSON as JSON, anything else
    as it stands; of a store of bytes it is UTF-8, or hexadecimal after ``0x``.

    Raises
    ------
    SpecError
        It is not a key of the store.
    """
    serde: Any = spec.key
    key: Any = text
    try:
        if serde is serdes.BYTES:
            key = bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
        elif serde in (serdes.INT32, serdes.INT64):
            key = int(text)
        elif serde is serdes.FLOAT64:
            key = float(text)
        elif serde is serdes.JSON:
            key = json.loads(text)
    except ValueError as error:
        raise SpecError(
            f"{text!r} is no key of the store {spec.name!r}, whose serde is {serde.name!r}: {error}"
        ) from error
    return key_bytes(spec, key)


def key_of_json(spec: StoreSpec, value: Any) -> bytes:
    """The bytes of a key that is an element of a JSON list; a string is as in :func:`key_of`."""
    if isinstance(value, str) and spec.key is not serdes.JSON:
        return key_of(spec, value)
    return key_bytes(spec, value)


def prefix_of(spec: StoreSpec, text: str) -> bytes:
    """The first bytes of keys, given as text; hexadecimal after ``0x`` where keys are not text.

    Raises
    ------
    SpecError
        It is not hexadecimal.
    """
    if spec.key is serdes.UTF8 or spec.key is serdes.JSON or not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise SpecError(f"the option prefix={text!r} is not hexadecimal: {error}") from error

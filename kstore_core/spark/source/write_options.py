"""The options of ``df.write.format("kstore")``, and a store's description as one of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.spark.root.storage.addresses import is_relative
from kstore_core.spark.source.options import READ_OPTIONS, STORAGE
from kstore_core.spark.source.texts import flag_of
from kstore_core.spec import StoredSpec, StoreSpec

__all__ = ["WRITE_OPTIONS", "WriteOptions", "spec_json", "write_options"]


def spec_json(spec: StoreSpec) -> str:
    """A store's description as text, for the option ``spec`` of ``format("kstore")``.

    Raises
    ------
    SpecError
        A serde is not one of the built-in ones, so its name says nothing to another process: give
        the option ``module:NAME`` instead.

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
            f"the store {spec.name!r} cannot be described in JSON: {error}. Put its description "
            "into a module, and name it: .option('spec', 'module:NAME')"
        ) from error
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise ValueError("it is none")
    return int(text)


def _by(text: str) -> str:
    if text not in ("key", "partition"):
        raise ValueError("it is neither")
    return text


def _name(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


WRITE_OPTIONS: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "spec": (
        READ_OPTIONS["spec"].parse,
        READ_OPTIONS["spec"].wants,
        "the store's description; needed where the root holds no version",
    ),
    "partitions": (_count, "a number from 1 on", "of shards; needed there too"),
    "partition_by": (
        _by,
        "key or partition",
        "whether murmur2 places a record, or its column `partition`, as by default with one",
    ),
    "engine": (_name, "the name of an engine", "of the shards; the version's, or rocksdb"),
    "partition_time": (
        flag_of,
        "true or false",
        "whether stream time follows the records' [header](partition-time.md) of that name too",
    ),
}
"""From text to the value, what that is, and what for; ``path`` and ``storage.…`` beside them."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write.

    Attributes
    ----------
    path : str
    storage : mapping of str to str
        Options of the object store.
    spec : StoreSpec or None
    partitions : int or None
    partition_by : str or None
    engine : str or None
    partition_time : bool
    """

    path: str
    storage: Mapping[str, str]
    spec: StoreSpec | None = None
    partitions: int | None = None
    partition_by: str | None = None
    engine: str | None = None
    partition_time: bool = False


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write, checked.

    Raises
    ------
    SpecError
        An unknown option, a value that it does not take; no path, or a relative one.
    """
    path, storage, values = "", {}, {}
    for written, text in given.items():
        name = written.lower()
        if name == "path":
            path = text
        elif name.startswith(STORAGE):
            storage[name.removeprefix(STORAGE)] = text
        elif name in WRITE_OPTIONS:
            parse, wants, _ = WRITE_OPTIONS[name]
            try:
                values[name] = parse(text)
            except ValueError as error:
                raise SpecError(f"the option {name}={text!r} is not {wants}: {error}") from error
        else:
            near = difflib.get_close_matches(name, WRITE_OPTIONS, 1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise SpecError(
                f"a write of kstore has no option {name!r}. {meant}There are: path, "
                f"{', '.join(WRITE_OPTIONS)}, and {STORAGE}… for the object store"
            )
    if not path:
        raise SpecError('there is no path; pass the root of a store: .save("/where/it/is")')
    if is_relative(path):
        raise SpecError(
            f"the path {path!r} is relative, and Spark's processes stand in directories of their "
            "own; pass an absolute one"
        )
    return WriteOptions(path, storage, **values)

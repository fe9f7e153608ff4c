"""Functions that check the options of a read or a write, and convert their texts to values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.spark.root.storage.addresses import is_relative

__all__ = ["STORAGE", "Option", "ParsedOptions", "by_name", "parse_options"]

STORAGE = "storage."
"""The prefix of the names of the options that configure the object store."""

_PLACES = {"read": '.load("/where/it/is")', "write": '.save("/where/it/is")'}


@dataclass(frozen=True, slots=True)
class Option:
    """The description of an option of a read or a write."""

    name: str
    parse: Callable[[str], Any]  # converts the text, or raises a ValueError that names the fault
    wants: str  # the form of the text, for errors and for the documentation
    meaning: str
    modes: tuple[str, ...] = ()  # the kinds of read that accept the option; empty for a write


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """The parsed options: the path, the options of the object store, and other values by name."""

    path: str
    storage: Mapping[str, str]
    values: Mapping[str, Any]


def by_name(*options: Option) -> dict[str, Option]:
    """Return a dict of the options by name."""
    return {option.name: option for option in options}


def parse_options(
    given: Mapping[str, str], options: Mapping[str, Option], use: str
) -> ParsedOptions:
    """Check the options in ``given``, and convert their texts to values.

    ``options`` are the allowed options. The case of an option's name does not matter. ``use`` is
    ``"read"`` or ``"write"``. Raise a SpecError if an option is unknown or has a wrong value. Also
    raise a SpecError if the path is missing or relative, or if there are several paths.
    """
    path, storage, values = "", {}, {}
    for written, text in given.items():
        name = written.lower()
        if name == "path":
            path = text
        elif name == "paths":
            combined = ", and combine the DataFrames with DataFrame.unionByName"
            raise SpecError(
                f"a {use} takes one root, but the paths {text} were given; {use} each root "
                f"separately{combined if use == 'read' else ''}"
            )
        elif name.startswith(STORAGE):
            storage[written[len(STORAGE) :]] = text
        elif name in options:
            try:
                values[name] = options[name].parse(text)
            except ValueError as error:
                wants = options[name].wants
                raise SpecError(f"the option {name}={text!r} is not {wants}: {error}") from error
        else:
            known = ["path", *options]
            near = difflib.get_close_matches(name, known, 1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            raise SpecError(
                f"a {use} of kstore has no option {name!r}. {meant}The options are: "
                f"{', '.join(known)}, and {STORAGE}… for the object store"
            )
    if not path:
        raise SpecError(
            f"the path is missing; pass the root of a store: {_PLACES[use]}. For a table in its "
            "catalog, Spark does not pass the path; create a temporary view instead"
        )
    if is_relative(path):
        raise SpecError(
            f"the path {path!r} is relative, but Spark's processes run in different directories; "
            "pass an absolute path"
        )
    return ParsedOptions(path, storage, values)

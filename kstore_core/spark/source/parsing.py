"""Options as Spark gives them, by name and as text: checked, and parsed to values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.spark.root.storage.addresses import is_relative

__all__ = ["STORAGE", "Option", "ParsedOptions", "by_name", "parse_options"]

STORAGE = "storage."
"""The prefix of options of an object store."""

_PLACES = {"read": '.load("/where/it/is")', "write": '.save("/where/it/is")'}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a read or a write.

    Attributes
    ----------
    parse : callable
        From its text to its value; a ValueError says what is wrong.
    wants : str
        The form of the text, for messages and for the documentation.
    modes : tuple of str
        Of reads only: the kinds of read that take it.
    """

    name: str
    parse: Callable[[str], Any]
    wants: str
    meaning: str
    modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """Options by name, beside the path and the options of the object store."""

    path: str
    storage: Mapping[str, str]
    values: dict[str, Any]


def by_name(*options: Option) -> dict[str, Option]:
    """Options by their names."""
    return {option.name: option for option in options}


def parse_options(
    given: Mapping[str, str], options: Mapping[str, Option], use: str
) -> ParsedOptions:
    """Options of a ``read`` or a ``write``; their names in any case.

    Raises
    ------
    SpecError
        An unknown option or a value that it does not take; no path, several, or a relative one.
    """
    path, storage, values = "", {}, {}
    for written, text in given.items():
        name = written.lower()
        if name == "path":
            path = text
        elif name == "paths":
            raise SpecError(
                f"one {use} is of one root, not of the paths {text}; read each by itself and put "
                "them together with DataFrame.unionByName"
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
                f"a {use} of kstore has no option {name!r}. {meant}There are: {', '.join(known)}, "
                f"and {STORAGE}… for the object store"
            )
    if not path:
        raise SpecError(f"there is no path; pass the root of a store: {_PLACES[use]}")
    if is_relative(path):
        raise SpecError(
            f"the path {path!r} is relative, and Spark's processes stand in directories of their "
            "own; pass an absolute one"
        )
    return ParsedOptions(path, storage, values)

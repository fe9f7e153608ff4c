"""Functions that check arguments and the layout numbers of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from kstore_core.errors import SpecError, StateError

__all__ = [
    "check_choice",
    "check_layout",
    "check_partitions",
    "existing_directory",
    "find_by_name",
    "resolved_path",
]

_Found = TypeVar("_Found")
_MOST = 2**31 - 1
"""The greatest number of partitions that Kafka and Spark allow."""


def check_choice(name: str, given: object, choices: Iterable[str]) -> None:
    """Raise an error if an argument is not one of the allowed values.

    Parameters
    ----------
    name : str
        The name of the argument for the message.
    given : object
        The argument.
    choices : iterable of str
        The allowed values.

    Raises
    ------
    SpecError
        If ``given`` is not in ``choices``.
    """
    known = tuple(choices)
    if given not in known:
        *most, last = map(repr, known)
        listed = f"{', '.join(most)} or {last}" if most else last
        raise SpecError(f"{name} must be {listed}, not {given!r}")


def check_partitions(partitions: int | None, what: str = "store") -> int:
    """Return ``partitions``, or raise a SpecError if it is not a valid number of partitions.

    ``what`` is the word for the object that has the partitions, in the error message.
    """
    if type(partitions) is not int or not 1 <= partitions <= _MOST:
        raise SpecError(
            f"partitions={partitions!r} is not a valid number of partitions of a {what}; pass an "
            f"int from 1 to {_MOST}"
        )
    return partitions


def find_by_name(kind: str, name: str, known: Mapping[str, _Found]) -> _Found:
    """Return the entry with this name from a mapping.

    Parameters
    ----------
    kind : str
        The kind of the entries for the message, such as "value format".
    name : str
        The name.
    known : mapping
        The entries by their names.

    Raises
    ------
    SpecError
        If there is no entry with this name.
    """
    try:
        return known[name]
    except KeyError:
        raise SpecError(
            f"there is no {kind} {name!r}; the known names are: {', '.join(known)}"
        ) from None


def resolved_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a state directory, without symbolic links.

    Raise a SpecError if ``path`` is empty or not a valid path. Raise a StateError if its symbolic
    links form a loop.
    """
    if not os.fspath(path):
        raise SpecError("the path of the state directory is empty; pass the path of a directory")
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # the type for a loop of links depends on Python
        raise StateError(
            f"{os.fspath(path)} cannot be resolved: {error}; repair its symbolic links"
        ) from error
    except ValueError as error:
        raise SpecError(
            f"{os.fspath(path)!r} is not a valid path: {error}; pass another path"
        ) from error


def existing_directory(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a state directory, or raise a StateError if it does not exist.

    Raise the errors of :func:`resolved_path`, too.
    """
    root = resolved_path(path)
    if not root.is_dir():
        raise StateError(f"there is no state directory at {root}. Pass the path of an existing one")
    return root


def check_layout(layout: int, newest: int, where: str) -> None:
    """Raise a StateError if the file ``where`` has a layout that is newer than ``newest``."""
    if layout > newest:
        raise StateError(
            f"{where} has the layout {layout}, but this kstore reads only layouts up to {newest}. "
            "Upgrade kstore"
        )

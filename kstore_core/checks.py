"""Functions that check arguments and the layout numbers of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kstore_core.errors import SpecError, StateError

__all__ = ["check_choice", "check_layout", "check_partitions", "find_by_name"]

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


def check_layout(layout: int, newest: int, where: str) -> None:
    """Raise a StateError if the file ``where`` has a layout that is newer than ``newest``."""
    if layout > newest:
        raise StateError(
            f"{where} has the layout {layout}, but this kstore reads only layouts up to {newest}. "
            "Upgrade kstore"
        )

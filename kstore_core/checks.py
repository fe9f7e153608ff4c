"""Checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kstore_core.errors import SpecError

__all__ = ["check_choice", "find_by_name"]

_Found = TypeVar("_Found")


def check_choice(name: str, given: object, choices: Iterable[str]) -> None:
    """Refuse an argument that is not one of its choices.

    Raises
    ------
    SpecError
    """
    known = tuple(choices)
    if given not in known:
        *most, last = map(repr, known)
        listed = f"{', '.join(most)} or {last}" if most else last
        raise SpecError(f"{name} must be {listed}, not {given!r}")


def find_by_name(kind: str, name: str, known: Mapping[str, _Found]) -> _Found:
    """Return the entry of this name; the error about an unknown name mentions `kind`.

    Raises
    ------
    SpecError
    """
    try:
        return known[name]
    except KeyError:
        raise SpecError(f"no {kind} {name!r}; there are: {', '.join(known)}") from None

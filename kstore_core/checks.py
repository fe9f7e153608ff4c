"""Checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable

from kstore_core.errors import SpecError

__all__ = ["check_choice"]


def check_choice(name: str, given: object, choices: Iterable[str]) -> None:
    """Refuse an argument that is none of its choices.

    Raises
    ------
    SpecError
    """
    known = tuple(choices)
    if given not in known:
        *most, last = map(repr, known)
        listed = f"{', '.join(most)} or {last}" if most else last
        raise SpecError(f"{name} must be {listed}, not {given!r}")

"""Functions that find serdes by their names. The specs of stores contain these names."""

from __future__ import annotations

import re
from typing import Any

from kstore_core.errors import SpecError
from kstore_core.serdes.built_in import BUILT_IN
from kstore_core.serdes.serde import BuiltInSerde
from kstore_core.serdes.typed import arrow_row, decimal, json_row
from kstore_core.serdes.types import parse_type

__all__ = ["by_name", "found"]

_TYPED = re.compile(r"(json|arrow)\((.*)\)|(decimal\(.*\))", re.DOTALL)


def by_name(name: str) -> BuiltInSerde[Any]:
    """Return the built-in serde with this name.

    The names of typed serdes contain their types: ``decimal(10,2)``, ``json(struct<sku:string>)``
    and ``arrow(struct<sku:string>)``.

    Raises
    ------
    SpecError
        If no built-in serde has this name, or the type in the name is not valid.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    match = _TYPED.fullmatch(name)
    if match is None:
        raise SpecError(
            f"there is no built-in serde {name!r}; the known names are: {', '.join(BUILT_IN)}, "
            "decimal(precision,scale), json(struct<…>), arrow(struct<…>)"
        )
    try:
        kind = parse_type(match[2] or match[3])
        if match[3]:
            return decimal(kind.precision, kind.scale)
        return (json_row if match[1] == "json" else arrow_row)(kind)
    except SpecError as error:
        raise SpecError(f"there is no built-in serde {name!r}: {error}") from None


def found(name: str) -> BuiltInSerde[Any] | None:
    """Return the built-in serde with this name, or None if there is no such serde."""
    try:
        return by_name(name)
    except SpecError:
        return None

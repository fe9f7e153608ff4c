"""Functions that check the names of stores."""

from __future__ import annotations

import re

from kstore_core.errors import SpecError

__all__ = ["check_name", "is_name"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_name(name: object) -> bool:
    """Return True if Kafka allows ``name`` as the name of a store."""
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and name not in (".", "..")


def check_name(name: str) -> None:
    """Raise SpecError if Kafka or kstore does not allow a name for a store."""
    if not is_name(name):
        raise SpecError(
            f"{name!r} is not a valid store name. A store name must have 1 to 249 of the "
            "characters A-Z a-z 0-9 . _ - and must not be . or .."
        )
    if name == ".kstore.lock":
        raise SpecError(
            f"{name!r} is not a valid store name, because kstore locks a state directory with a "
            "file of this name. Use another name"
        )
    if ".checkpoint".startswith(name):
        raise SpecError(
            f"{name!r} is not a valid store name, because the name of Kafka Streams' file "
            f".checkpoint begins with {name!r}. Use another name"
        )

"""The check of the names of stores."""

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
            f"{name!r} is not a valid store name: use 1 to 249 of the characters A-Z a-z 0-9 . _ "
            f"-, "
            "and neither . nor .."
        )
    if name == ".kstore.lock":
        raise SpecError(
            f"{name!r} is not a valid store name: kstore uses this file to lock the state directory"
        )
    if ".checkpoint".startswith(name):
        raise SpecError(
            f"{name!r} is not a valid store name: Kafka Streams uses it for a file of its own"
        )

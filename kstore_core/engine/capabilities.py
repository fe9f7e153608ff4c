"""The properties of an engine as data: durability levels, capabilities and options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Self, get_args

from kstore_core.checks import check_choice
from kstore_core.errors import SpecError

__all__ = ["DURABILITY_LEVELS", "Capabilities", "Durability", "EngineOptions", "check_durability"]

Durability = Literal["process", "power", "changelog"]
"""The failure that a commit survives: SIGKILL, a power cut, or that of Kafka's own stores."""

DURABILITY_LEVELS: tuple[Durability, ...] = get_args(Durability)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """An engine's capabilities. Building a store that needs a missing one fails.

    Attributes
    ----------
    persistent : bool
        Rows survive the process.
    process_local : bool
        Only the process that opened a database can read it; another one, such as a Spark worker,
        cannot.
    max_key_bytes : int or None
        The longest key that can be stored; None for no limit. A longer key is refused before it is
        staged.
    empty_keys : bool
        The empty key can be stored. If False, a write of it is refused before it is staged.
    durability : tuple of Durability
        The levels that the engine tells apart; any other level is treated as ``"process"``.
    checkpoint : bool
        :meth:`Database.checkpoint` makes a consistent copy of a live database.
    bulk_load : bool
        :meth:`Database.load` is faster than writing the same rows in batches.
    children : bool
        A store can have one database for each segment; see :meth:`Engine.open_child`. If False,
        segments share a database under key prefixes.
    """

    persistent: bool
    process_local: bool
    max_key_bytes: int | None = None
    empty_keys: bool = True
    durability: tuple[Durability, ...] = ("process",)
    checkpoint: bool = True
    bulk_load: bool = False
    children: bool = False


@dataclass(frozen=True)
class EngineOptions:
    """Base of an engine's options: a frozen dataclass whose every field has a default."""

    @classmethod
    def parse(cls, given: Mapping[str, Any] | EngineOptions | None) -> Self:
        """Make options from a mapping, and refuse a name that the engine does not have.

        Raises
        ------
        SpecError
            An unknown name (the text gives the nearest one), a value of another type, or the
            options of another engine.
        """
        if given is None:
            return cls()
        if isinstance(given, EngineOptions):
            if not isinstance(given, cls):
                raise SpecError(f"{type(given).__name__} given where {cls.__name__} is wanted")
            return given
        if not isinstance(given, Mapping):
            raise SpecError(f"options are a mapping or a {cls.__name__}, not {given!r}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name, value in given.items():
            if not isinstance(name, str):
                raise SpecError(f"the name of an option of {cls.__name__} is a str, not {name!r}")
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
                raise SpecError(f"{cls.__name__} has no option {name!r}; {hint}")
            default = known[name].default
            if default is not dataclasses.MISSING and default is not None:
                wanted = type(default)
                if type(value) is not wanted:
                    raise SpecError(
                        f"option {name!r} takes {wanted.__name__}, not {type(value).__name__}"
                    )
        return cls(**given)


def check_durability(given: str) -> None:
    """Raise SpecError unless ``given`` is a durability level."""
    check_choice("durability", given, DURABILITY_LEVELS)

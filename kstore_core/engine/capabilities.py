"""The durability levels, capabilities and options of an engine."""

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
"""The durability level of a commit.

At ``"process"`` a commit survives the end of the process, for example by SIGKILL. At ``"power"`` it
also survives a power cut. At ``"changelog"`` a crash may lose commits, as in Kafka Streams.
"""

DURABILITY_LEVELS: tuple[Durability, ...] = get_args(Durability)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of an engine. A store cannot be opened if it needs a missing capability.

    Attributes
    ----------
    persistent : bool
        True if rows survive the end of the process.
    process_local : bool
        True if a database that is open in one process cannot be read by another process, such as a
        Spark worker.
    max_key_bytes : int or None
        The size in bytes of the longest key that the engine can store; None if there is no limit.
        A write of a longer key is refused at once, before any commit.
    empty_keys : bool
        True if the engine can store the empty key. If False, a write of the empty key is refused
        at once, before any commit.
    durability : tuple of Durability
        The levels that the engine implements. The engine treats any other level as ``"process"``.
    checkpoint : bool
        True if :meth:`Database.checkpoint` can copy an open database.
    bulk_load : bool
        True if :meth:`Database.load` is faster than writing the same rows in batches.
    children : bool
        True if each segment of a store can have a separate database; see :meth:`Engine.open_child`.
        If False, all segments share one database, and each stored key begins with a segment id.
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
    """The base class of an engine's options.

    A subclass must be a frozen dataclass, and each of its fields must have a default.
    """

    @classmethod
    def parse(cls, given: Mapping[str, Any] | EngineOptions | None) -> Self:
        """Create the options of an engine from a mapping.

        Parameters
        ----------
        given : mapping of str to object, EngineOptions or None
            The options by name; the default options if None. An instance of this class is returned
            unchanged.

        Raises
        ------
        SpecError
            A name is not an option of the engine, a value has the wrong type, or the instance
            contains the options of another engine.
        """
        if given is None:
            return cls()
        if isinstance(given, EngineOptions):
            if not isinstance(given, cls):
                raise SpecError(
                    f"the options have the type {type(given).__name__}, but must have the type "
                    f"{cls.__name__}"
                )
            return given
        if not isinstance(given, Mapping):
            raise SpecError(f"options must be a mapping or a {cls.__name__}, not {given!r}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        for name, value in given.items():
            if not isinstance(name, str):
                raise SpecError(
                    f"the name of an option of {cls.__name__} must be a str, not {name!r}"
                )
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = (
                    f"did you mean {near[0]!r}?" if near else f"its options are: {', '.join(known)}"
                )
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

"""The options with which kstore opens the databases of a store."""

from __future__ import annotations

from dataclasses import dataclass

from kstore_core.engine import Durability, Engine

__all__ = ["OpenOptions"]


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The options of a state directory that apply to each of its databases.

    Attributes
    ----------
    durability : {"process", "power", "changelog"}
        The durability level of a commit.
    read_only : bool
        If True, the databases are opened for reading only.
    migrate_on_read : bool
        If True, a lookup of a row in an older format rewrites the row in the new format.
    """

    durability: Durability = "process"
    read_only: bool = False
    migrate_on_read: bool = True

    def loses_tails(self, engine: Engine) -> bool:
        """Return True if a crash may lose rows that were written since the last sync."""
        levels = engine.capabilities.durability
        return self.durability == "changelog" and self.durability in levels

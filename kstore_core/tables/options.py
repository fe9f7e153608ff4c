"""The options that a store's databases are opened with."""

from __future__ import annotations

from dataclasses import dataclass

from kstore_core.engine import Durability, Engine

__all__ = ["OpenOptions"]


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options of a state directory that hold for each of its databases.

    Attributes
    ----------
    durability : {"process", "power", "changelog"}
    read_only : bool
    migrate_on_read : bool
        A lookup moves a row of an older format to the new one.
    """

    durability: Durability = "process"
    read_only: bool = False
    migrate_on_read: bool = True

    def loses_tails(self, engine: Engine) -> bool:
        """Return True if a crash may lose rows that were written but not synced."""
        levels = engine.capabilities.durability
        return self.durability == "changelog" and self.durability in levels

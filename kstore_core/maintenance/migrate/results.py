"""Progress and results of a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kstore_core.formats import ValueFormat
from kstore_core.maintenance.migrate.converting import Lost

__all__ = ["MigrateProgress", "Migrated", "ProgressCallback"]


class MigrateProgress(NamedTuple):
    """Progress of a migration, reported before each step.

    Attributes
    ----------
    store : str
    step : str
        ``"count"`` what would be lost, ``"copy"``, ``"verify"``, ``"plan"`` the swap, ``"set
        aside"`` the old store, ``"put in place"`` the new one, ``"record"`` the engine,
        ``"finish"``, ``"drop"`` what was set aside.
    rows, total : int
        Rows that the step has passed, or records of a log, of about how many; 0 where it passes
        none.
    """

    store: str
    step: str
    rows: int = 0
    total: int = 0


@dataclass(slots=True)
class Migrated:
    """The result of a migration for one store.

    Attributes
    ----------
    store : str
    changed : bool
        False if the store already was as asked; the other attributes are then meaningless.
    before, after : ValueFormat or None
        None where an earlier run had made the new store, and this one put it in its place.
    engine_before, engine : str
    rows : int
        Rows of the new store.
    lost : Lost
        Headers and timestamps that the new store lacks.
    late, differing : int
        From a log: records that were too late for the history, and keys of which another value is
        the newest now.
    old : Path or None
        The state directory that the old store was set aside in, unless that is deleted.
    """

    store: str
    changed: bool
    engine_before: str
    engine: str
    before: ValueFormat | None = None
    after: ValueFormat | None = None
    rows: int = 0
    lost: Lost = field(default_factory=Lost)
    late: int = 0
    differing: int = 0
    old: Path | None = None


ProgressCallback = Callable[[MigrateProgress], object]

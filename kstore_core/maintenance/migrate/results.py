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
        ``"count"`` the losses, ``"copy"``, ``"verify"``, ``"plan"`` the swap, ``"set aside"`` the
        old store, ``"put in place"`` the new one, ``"record"`` the engine, ``"finish"``,
        ``"drop"`` the old store.
    rows, total : int
        Rows or log records that the step has read, and an estimate of their total; 0 if the step
        reads none.
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
        False if the store already had the format and the engine; the other attributes are then
        meaningless.
    before, after : ValueFormat or None
        None if this call only finished the migration of an earlier call.
    engine_before, engine : str
    rows : int
        Rows of the new store.
    lost : Lost
        Headers and timestamps that the new store lacks.
    late, differing : int
        From a log: records that were too late for the history, and keys with a different newest
        value.
    old : Path or None
        The state directory of the old store; None if it is deleted.
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

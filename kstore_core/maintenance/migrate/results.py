"""The progress and the results of a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kstore_core.formats import ValueFormat
from kstore_core.maintenance.migrate.converting import Lost

__all__ = ["MigrateProgress", "Migrated", "ProgressCallback"]


class MigrateProgress(NamedTuple):
    """The progress of a migration or a rescale.

    It is reported before each step, and during long steps.

    Attributes
    ----------
    store : str
    step : str
        The current step: ``"count"`` (count what would be lost), ``"copy"``, ``"verify"``,
        ``"plan"`` (write the plan of the renames), ``"set aside"`` (move the old store away),
        ``"put in place"`` (rename the new store), ``"record"`` (record the new engine),
        ``"finish"``, or ``"drop"`` (delete the old store). A rescale has the steps ``"move"`` and
        ``"publish"``.
    rows, total : int
        The number of rows or log records that the step has read so far, and an estimate of their
        total. If the step reads no rows and no log, the numbers are 0.
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
        False if the store already had the format and the engine, so that nothing was done. If
        ``changed`` is False, only ``store``, ``engine`` and ``old`` have a meaning.
    before, after : ValueFormat or None
        The formats of the old and the new store. The formats are None if this call only finished
        the migration of an earlier call.
    engine_before, engine : str
        The names of the old and the new engine.
    rows : int
        The number of rows of the new store.
    lost : Lost
        The numbers of headers and timestamps that the new store lacks.
    late, differing : int
        For a migration with a changelog, the number of records that were too late for the history,
        and the number of keys whose newest value differs. For other migrations, the numbers are 0.
    old : Path or None
        A state directory that contains the old store; None if there is no old store or it has been
        deleted.
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

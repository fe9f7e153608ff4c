"""The messages between the parent process and the child process of a verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.maintenance.verify.kinds import Kind
from kstore_core.offsets.entries import Partition, StoreRecord
from kstore_core.spec import StoredSpec

__all__ = ["Job", "Survey", "Unit"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job for a child process.

    Attributes
    ----------
    engine : Engine
    root : Path
        The state directory.
    spec : StoredSpec or None
        The spec of stores without a stored one.
    at_most : int
        The most findings of a kind per namespace; 0 for all.
    logs : Path or None
        Directory of the changelogs.
    """

    engine: Engine
    root: Path
    spec: StoredSpec | None
    at_most: int
    logs: Path | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work that does not depend on other units.

    Attributes
    ----------
    does : {"survey", "files", "rows", "log", "compare"}
    store : str
    segment : str or None
        The name of the segment's own database.
    kind : Kind or None
        The result of the survey.
    end : int
        The start of the next segment, ms; 0 for the last one.
    offsets : dict
        The known offsets of the store.
    """

    does: str
    store: str
    segment: str | None = None
    kind: Kind | None = None
    end: int = 0
    offsets: dict[Partition, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.store if self.segment is None else f"{self.store}/{self.segment}"


@dataclass(frozen=True, slots=True)
class Survey:
    """The stored description of a store.

    Attributes
    ----------
    kind : Kind
    record : StoreRecord
    older : dict of str to int
        The approximate number of rows per older format.
    read : bool
        True if a database could be read, or the store has none yet.
    """

    kind: Kind
    record: StoreRecord
    older: dict[str, int]
    read: bool

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
    """The settings of a verification. The parent sends these settings to each child process.

    Attributes
    ----------
    engine : Engine
    root : Path
        The state directory.
    spec : StoredSpec or None
        The spec that the caller passed, for a store without a stored spec.
    at_most : int
        The maximum number of findings of the same kind per namespace; no limit if 0.
    logs : Path or None
        The directory of the changelogs; None if changelogs are not checked.
    """

    engine: Engine
    root: Path
    spec: StoredSpec | None
    at_most: int
    logs: Path | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work of a child process.

    Attributes
    ----------
    does : {"survey", "files", "rows", "log", "compare"}
        The check to run.
    store : str
    segment : str or None
        The name of the segment, if each segment of the store has its own database.
    kind : Kind or None
        The kind of the store, as determined by the survey, which is the first read of the store.
    end : int
        The start of the next segment in ms; 0 if the segment is the last.
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
    """The result of the first read of a store: the store's kind and metadata.

    ``older`` has the approximate number of rows in each older format, by the format's name.
    ``read`` is True if at least one database could be read, or the store has no segments yet.
    """

    kind: Kind
    record: StoreRecord
    older: dict[str, int]
    read: bool

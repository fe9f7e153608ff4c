"""The units of work that a child process does, what it answers, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kstore_core.engine import Engine
from kstore_core.hints import command
from kstore_core.maintenance.verify.findings import Severity
from kstore_core.maintenance.verify.kinds import Kind
from kstore_core.maintenance.verify.rows import Fault
from kstore_core.offsets.entries import Partition, StoreRecord
from kstore_core.spec import StoredSpec

__all__ = ["LOG_REMEDY", "Job", "Survey", "Unit", "remedy"]

LOG_REMEDY = "take the file from a copy of the log, or restore the store from its source"


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
    """A piece of work, small enough to be done without the others.

    Attributes
    ----------
    does : {"survey", "files", "rows", "log", "compare"}
    store : str
    segment : str or None
        The name of the segment's own database.
    kind : Kind or None
        What a survey has found.
    end : int
        When the next segment begins, ms; 0 for the last one.
    offsets : dict
        Up to where the store contains each partition, as far as that is known.
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
    """The description that a store keeps.

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


def is_forbidden(error: BaseException) -> bool:
    """Return True if the user may not read a file, which is not damage."""
    return "Permission denied" in str(error)


def remedy(severity: Severity, fault: Fault, unit: Unit, job: Job) -> str:
    """The next command."""
    root = job.root
    if severity == "note":
        return ""
    if severity == "locked":
        return f"see who has it with: {command('doctor', root)}"
    if unit.does == "log" and severity == "corrupt":
        return LOG_REMEDY
    if fault.what == "forbidden":
        return f"read it as a user who may; see what is closed with: {command('doctor', root)}"
    if fault.what == "failed":
        return "verify it again; where it fails again, report it with this text"
    if fault.what == "description":
        return "describe it as it was written, and verify it again; if this is how, restore it"
    if fault.what == "two formats":
        return f"finish the upgrade with: {command('upgrade', root, unit.store)}"
    if severity == "corrupt" and job.spec is not None:
        return "say what it was written as, or, if this is it, restore it from its changelog"
    if severity == "corrupt":
        aside = command("doctor", root, options=f"--set-aside {unit.store}")
        return f"set the store aside and restore it: {aside}"
    return f"look at it with: {command('inspect', root)}"

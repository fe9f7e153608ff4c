"""Findings: a fault, its place, the next command."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

__all__ = ["Counts", "Finding", "Findings", "Place", "Severity", "Verified", "is_forbidden"]

Severity = Literal["corrupt", "locked", "finding", "note"]
"""corrupt: data is wrong or lost. locked: another process has a lock. finding: something is wrong,
and no data is lost. note: information, or a check that was not possible."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a finding.

    Attributes
    ----------
    store : str
    segment : str or None
        The name of the segment's own database; None where the store has one database.
    namespace : str or None
    key : bytes or None
        The stored key.
    shard : int or None
        The shard of a partitioned store.
    """

    store: str
    segment: str | None = None
    namespace: str | None = None
    key: bytes | None = None
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault.

    Attributes
    ----------
    severity : {"corrupt", "locked", "finding", "note"}
    what : str
        The kind of fault; a fixed text.
    why : str
        The observation.
    place : Place
    remedy : str
        The next step, as a command if there is one.
    """

    severity: Severity
    what: str
    why: str
    place: Place
    remedy: str


@dataclass(slots=True)
class Counts:
    """Counts of what was read.

    Attributes
    ----------
    databases, namespaces, rows, bytes
        In the stores. Bytes are those of keys and values.
    versions : int
        In versioned stores, including tombstones.
    entries : int
        In offsets namespaces.
    log_batches, log_records
        In changelogs.
    compared : int
        Records that were compared with a restore.
    files : int
        Files of a partitioned store that were compared with its manifests.
    """

    databases: int = 0
    namespaces: int = 0
    rows: int = 0
    bytes: int = 0
    versions: int = 0
    entries: int = 0
    log_batches: int = 0
    log_records: int = 0
    compared: int = 0
    files: int = 0

    def add(self, other: Counts) -> None:
        """Add another's counts."""
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class Verified:
    """The result of a verification.

    Attributes
    ----------
    findings : list of Finding
    counts : Counts
    """

    findings: list[Finding] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    @property
    def exit_code(self) -> int:
        """0 sound, 1 findings, 3 locked, 4 corrupt."""
        found = {finding.severity for finding in self.findings}
        codes = {"corrupt": 4, "locked": 3, "finding": 1}
        return next((code for severity, code in codes.items() if severity in found), 0)


def is_forbidden(error: BaseException) -> bool:
    """Return True for an error of file permissions, which is no damage."""
    return "Permission denied" in str(error)


class Findings:
    """Passes findings on, at most `at_most` of a kind per namespace; the rest is counted.

    Parameters
    ----------
    send : callable
        Called with each Finding.
    at_most : int
        The most findings of a kind per namespace; 0 for all.
    """

    def __init__(self, send: Any, at_most: int) -> None:
        self._send = send
        self._at_most = at_most
        self._seen: Counter[tuple[str, Place]] = Counter()
        self._last: dict[tuple[str, Place], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Pass a finding on, or count it if there are too many."""
        kind = finding.what, replace(finding.place, key=None)
        self._seen[kind] += 1
        if self._at_most and self._seen[kind] > self._at_most:
            self._last[kind] = finding
        else:
            self._send(finding)

    def end(self) -> None:
        """Pass on the number of the findings that were only counted."""
        for kind, finding in self._last.items():
            more = self._seen[kind] - self._at_most
            self._send(replace(finding, why=f"{more} more of these, the last one: {finding.why}"))
        self._seen.clear()
        self._last.clear()

"""The findings of verify and doctor, each with a fault, a place and a remedy."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

__all__ = ["Counts", "Finding", "Findings", "Place", "Severity", "Verified", "is_forbidden"]

Severity = Literal["corrupt", "locked", "finding", "note"]
"""The severity of a finding.

``"corrupt"`` means that data is wrong or lost. ``"locked"`` means that another process has a lock.
``"finding"`` means that something is wrong, but no data is lost. ``"note"`` means that nothing is
wrong, or that a check was not possible.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a finding.

    Attributes
    ----------
    store : str
    segment : str or None
        The name of the segment, if each segment of the store has its own database; otherwise None.
    namespace : str or None
        The namespace of the database; None if unknown.
    key : bytes or None
        The stored key of the row; None if the finding is not about a row.
    shard : int or None
        The shard of a partitioned store; None for a store in a state directory.
    """

    store: str
    segment: str | None = None
    namespace: str | None = None
    key: bytes | None = None
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or a note that verify or doctor reports.

    Attributes
    ----------
    severity : {"corrupt", "locked", "finding", "note"}
    what : str
        The kind of the fault, one of the fixed words of docs/verify.md.
    why : str
        A description of what was found.
    place : Place
        The place where it was found.
    remedy : str
        The next step, with a command if one helps; empty if nothing needs to be done.
    """

    severity: Severity
    what: str
    why: str
    place: Place
    remedy: str


@dataclass(slots=True)
class Counts:
    """The amounts of data that a verification has read.

    Attributes
    ----------
    databases, namespaces, rows : int
        The numbers of databases, namespaces and rows of the stores.
    bytes : int
        The total size of the rows' keys and values, in bytes.
    versions : int
        The number of versions in versioned stores, including tombstones.
    entries : int
        The number of entries in the offsets namespaces.
    log_batches, log_records : int
        The numbers of batches and records of the changelogs.
    compared : int
        The number of records that were compared with a restore of a changelog.
    files : int
        The number of files of a partitioned store that were compared with its manifests.
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
        """Add the counts of ``other`` to these counts."""
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
        """The exit code of the worst finding.

        The code is 4 for ``"corrupt"``, 3 for ``"locked"``, and 1 for ``"finding"``. It is 0 if
        there are no findings except notes.
        """
        found = {finding.severity for finding in self.findings}
        codes = {"corrupt": 4, "locked": 3, "finding": 1}
        return next((code for severity, code in codes.items() if severity in found), 0)


def is_forbidden(error: BaseException) -> bool:
    """Return True if file permissions caused the error. Such an error does not indicate damage."""
    return "Permission denied" in str(error)


class Findings:
    """A filter that passes on a limited number of findings of each kind, and counts the rest.

    Parameters
    ----------
    send : callable
        A function that is called with each `Finding` that is passed on.
    at_most : int
        The maximum number of findings of the same kind per namespace; no limit if 0.
    """

    def __init__(self, send: Any, at_most: int) -> None:
        self._send = send
        self._at_most = at_most
        self._seen: Counter[tuple[str, Place]] = Counter()
        self._last: dict[tuple[str, Place], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Pass a finding on, or only count it if the limit of its kind has been reached."""
        kind = finding.what, replace(finding.place, key=None)
        self._seen[kind] += 1
        if self._at_most and self._seen[kind] > self._at_most:
            self._last[kind] = finding
        else:
            self._send(finding)

    def end(self) -> None:
        """For each kind, pass on one finding with the number of findings that were only counted."""
        for kind, finding in self._last.items():
            more = self._seen[kind] - self._at_most
            why = f"{more} more findings of this kind; the last finding: {finding.why}"
            self._send(replace(finding, why=why))
        self._seen.clear()
        self._last.clear()

"""The code that does the units of work in the child process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from kstore_core.engine import Database
from kstore_core.errors import EngineLockedError, InconsistentStateError, KStoreError, SpecError
from kstore_core.formats import by_name
from kstore_core.maintenance.verify.comparing import compare
from kstore_core.maintenance.verify.database import DatabaseCheck
from kstore_core.maintenance.verify.entries import read_entries
from kstore_core.maintenance.verify.findings import (
    Counts,
    Finding,
    Findings,
    Place,
    Severity,
    is_forbidden,
)
from kstore_core.maintenance.verify.kinds import Kind, kind_of
from kstore_core.maintenance.verify.logs import check_log, log_of
from kstore_core.maintenance.verify.protocol import Job, Survey, Unit
from kstore_core.maintenance.verify.remedies import remedy
from kstore_core.maintenance.verify.rows import Fault, SegmentTime
from kstore_core.offsets.entries import StoreRecord, merged_record
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.databases import read_progress
from kstore_core.tables.segments.names import by_id, starts
from kstore_core.tables.segments.prefixes import ID_BYTES

__all__ = ["Worker"]

_LOOKED_AT = 8
"""The maximum number of segments that are searched for the stored spec, the newest first."""


class Worker:
    """The part of the child process that does units of work.

    Parameters
    ----------
    job : Job
    send : callable
        A function that sends a message to the parent. Its arguments are the name and the content.
    """

    def __init__(self, job: Job, send: Callable[[str, Any], None]) -> None:
        self._job = job
        self._send = send
        self._do: dict[str, Callable[[Unit, Findings], Survey | None]] = {
            "survey": self._survey,
            "files": self._files,
            "rows": self._rows,
            "log": self._log,
            "compare": self._compare,
        }

    def do(self, unit: Unit) -> Any:
        """Do a unit of work. Return a `Survey` if the unit is a survey, otherwise None."""
        findings = Findings(lambda finding: self._send("finding", finding), self._job.at_most)
        try:
            return self._do[unit.does](unit, findings)
        except EngineLockedError as error:
            findings.add(self._finding(unit, "locked", Fault("locked", str(error))))
        except (KStoreError, OSError) as error:
            severity: Severity = "corrupt" if isinstance(error, KStoreError) else "finding"
            fault = Fault("unreadable", str(error))
            if is_forbidden(error):
                severity, fault = "finding", Fault("forbidden", str(error))
            findings.add(self._finding(unit, severity, fault))
        except Exception as error:  # noqa: BLE001 - damage may raise any exception
            fault = Fault("failed", f"the read failed with an unexpected error: {error!r}")
            findings.add(self._finding(unit, "corrupt", fault))
        finally:
            findings.end()
        return None

    # ------------------------------------------------------------ survey

    def _survey(self, unit: Unit, findings: Findings) -> Survey:
        """Return the most likely kind of the store, and its metadata."""
        engine, root, store = self._job.engine, self._job.root, unit.store
        names: Sequence[str | None] = [None]
        found: dict[str, int] = {}
        in_segments = store in engine.parents(root)
        if in_segments:
            found = starts(store, engine.children(root, store), root / store)
            names = [*found][::-1]
        records: list[StoreRecord] = []
        is_empty = in_segments
        counts: Counter[str] = Counter()
        for name in names:
            try:
                with closing(self._open(store, name)) as database:
                    for namespace in database.namespaces():
                        counts[namespace] += database.namespace(namespace).approximate_count()
                    records.append(_record_of(database, store))
            except FileNotFoundError:
                continue  # the unit "rows" reports a missing database
            except KStoreError:
                is_empty = False
                continue  # the unit "rows" reports this error
            if records[-1].spec is not None or len(records) == _LOOKED_AT:
                break
        record = merged_record(records)
        spec = record.spec
        if spec is None and self._job.spec is not None:
            spec = replace(self._job.spec, name=store)
        if spec is not None and spec.segment_interval_ms is not None and found:
            try:
                by_id(store, found, root / store, spec.segment_interval_ms)
                progress = read_progress(engine, root, store)
                record = progress.record
                if progress.behind:
                    findings.add(self._finding(unit, "note", Fault("note", progress.behind)))
                read_progress(engine, root, store, all_segments=True)
            except InconsistentStateError as error:
                findings.add(self._finding(unit, "corrupt", Fault("segments", str(error))))
            except KStoreError:
                pass  # the unit "rows" of the segment reports this error
        kind = kind_of(
            spec,
            counts,
            has_children=in_segments,
            starts=found.values(),
            described=record.spec is None,
        )
        return Survey(kind, record, _older(kind, counts), read=is_empty or bool(records))

    # ------------------------------------------------------------ files and rows

    def _files(self, unit: Unit, findings: Findings) -> None:
        """Report the faults that the engine finds in the files of an unopened store."""
        try:
            for why in self._job.engine.file_faults(self._job.root, unit.store, unit.segment):
                findings.add(self._finding(unit, "corrupt", Fault("file", why)))
        except EngineLockedError as error:
            findings.add(self._finding(unit, "note", Fault("note", str(error))))

    def _rows(self, unit: Unit, findings: Findings) -> None:
        kind = unit.kind
        assert kind is not None
        segment = None
        if unit.segment is not None:
            (start,) = starts(unit.store, [unit.segment], self._job.root / unit.store).values()
            segment = SegmentTime(start, start + kind.width_ms if kind.width_ms else unit.end)

        def on_fault(fault: Fault, namespace: str | None, key: bytes | None) -> None:
            severity: Severity = "corrupt" if fault.serious else "finding"
            findings.add(self._finding(unit, severity, fault, namespace, key))

        def note(why: str, namespace: str | None) -> None:
            findings.add(self._finding(unit, "note", Fault("note", why), namespace))

        def count(counts: Counts, namespace: str, key: bytes | None) -> None:
            self._send("counted", (counts, namespace, key))

        try:
            database = self._open(unit.store, unit.segment)
        except FileNotFoundError:
            note("the segment was just deleted or never finished, so it has no database", None)
            return
        with closing(database):
            DatabaseCheck(
                database,
                kind,
                unit.store,
                on_fault=on_fault,
                note=note,
                count=count,
                id_bytes=ID_BYTES if kind.in_segments and segment is None else 0,
                segment=segment,
            ).run()

    # ------------------------------------------------------------ changelogs

    def _log(self, unit: Unit, findings: Findings) -> None:
        log = self._log_of(unit)
        for found in () if log is None else check_log(log, unit.offsets):
            if isinstance(found, Counts):
                self._send("counted", (found, "", None))
            else:
                findings.add(self._finding(unit, *found))
        if log is None:
            why = (
                f"{self._job.logs} has no changelog of the store, has several, or has a changelog "
                "that may belong to another store. Pass the directory of the store's changelog"
            )
            findings.add(self._finding(unit, "finding", Fault("log", why)))

    def _compare(self, unit: Unit, findings: Findings) -> None:
        log, kind = self._log_of(unit), unit.kind
        if log is None:
            return
        if kind is None or kind.spec is None:
            why = (
                "the store has no stored spec, so it cannot be compared; describe the store with "
                "--shape"
            )
            findings.add(self._finding(unit, "note", Fault("compare", why)))
            return
        try:
            for found in compare(self._job.engine, self._job.root, kind.spec, log):
                if isinstance(found, Counts):
                    self._send("counted", (found, "", None))
                else:
                    severity, fault, key = found
                    findings.add(self._finding(unit, severity, fault, None, key))
        except SpecError as error:
            if not kind.described:
                raise
            findings.add(self._finding(unit, "finding", Fault("description", str(error))))

    def _log_of(self, unit: Unit) -> Path | None:
        assert self._job.logs is not None
        return log_of(self._job.logs, unit.store, self._job.root)

    # ------------------------------------------------------------

    def _open(self, store: str, segment: str | None) -> Database:
        engine, root = self._job.engine, self._job.root
        if segment is None:
            return engine.open(root, store, read_only=True)
        return engine.open_child(root, store, segment, read_only=True)

    def _finding(
        self,
        unit: Unit,
        severity: Severity,
        fault: Fault,
        namespace: str | None = None,
        key: bytes | None = None,
    ) -> Finding:
        place = Place(unit.store, unit.segment, namespace, key)
        return Finding(
            severity, fault.what, fault.why, place, remedy(severity, fault, unit, self._job)
        )


def _older(kind: Kind, counts: Mapping[str, int]) -> dict[str, int]:
    newest = kind.newest(counts)
    older = [] if newest is None else [by_name(name) for name in newest.upgrades]
    return {f.name: counts[f.namespace] for f in older if counts.get(f.namespace)}


def _record_of(database: Database, store: str) -> StoreRecord:
    """Return the store's metadata without damaged entries."""
    if OFFSETS not in database.namespaces():
        return StoreRecord()
    return read_entries(database.namespace(OFFSETS), store)

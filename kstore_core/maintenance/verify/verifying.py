"""The parent process of a verification. It sends work to a child and replaces a crashed child."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstore_core.engine import Engine
from kstore_core.errors import InconsistentStateError, SpecError, StateError, UnsupportedError
from kstore_core.hints import command
from kstore_core.maintenance.verify.findings import Finding, Place, Verified
from kstore_core.maintenance.verify.kinds import kind_of
from kstore_core.maintenance.verify.protocol import Job, Survey, Unit
from kstore_core.maintenance.verify.remedies import remedy
from kstore_core.maintenance.verify.rows import Fault
from kstore_core.maintenance.verify.subprocesses import Child, DiedError
from kstore_core.spec import StoredSpec, StoreSpec, is_name
from kstore_core.state import open_state
from kstore_core.state.migration_note import read_plan
from kstore_core.system.interrupts import leave
from kstore_core.tables.segments.names import starts

__all__ = ["DEFAULT_AT_MOST", "Progress", "verify"]

DEFAULT_AT_MOST = 100
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a verification.

    Attributes
    ----------
    reading : str
        The name of the store that is being read, or ``store/segment``.
    done, units : int
        The number of finished units of work, and the number of all units known so far.
    rows, findings : int
        The numbers of rows and findings so far.
    """

    reading: str
    done: int
    units: int
    rows: int
    findings: int


def verify(
    path: str | os.PathLike[str],
    store: str | None = None,
    *,
    spec: StoreSpec | None = None,
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
    changelog: str | os.PathLike[str] | None = None,
    compare: bool = False,
    at_most: int = DEFAULT_AT_MOST,
    patience_s: float = _PATIENCE_S,
    progress: Callable[[Progress], object] | None = None,
) -> Verified:
    """Read and check all data in a state directory, in a child process that changes nothing.

    Parameters
    ----------
    path : path-like
        The state directory.
    store : str, optional
        The only store to verify. Default: all stores.
    spec : StoreSpec, optional
        The spec of ``store``. It may be passed only if the store has no stored spec. Stores that
        Kafka Streams wrote have no stored spec.
    engine, options
        The arguments of :func:`kstore_core.open_state`.
    changelog : path-like, optional
        The directory of the stores' changelogs in files. If it is given, verify also reads the
        changelogs.
    compare : bool
        True to restore each store from its changelog into a temporary directory, and to compare the
        store with the restored store. This needs ``changelog``.
    at_most : int
        The maximum number of findings of the same kind per namespace; no limit if 0. Further
        findings are only counted.
    patience_s : float
        The maximum time in seconds without a message from the child. A silent child is killed.
    progress : callable, optional
        A function that is called with a `Progress` at intervals.

    Returns
    -------
    Verified
        All findings. The verification does not stop at damage.

    Raises
    ------
    StateError
        The state directory, the store, or the directory of the changelogs does not exist.
    SpecError
        The engine of the directory is unknown, ``spec`` is given without a store or for a store
        with a stored spec, or ``compare`` is given without a changelog.
    UnknownEngineError, EngineUnavailableError
        The engine is not installed, or cannot be loaded.
    EngineError
        The process that reads the data could not start, so the data were not verified.
    UnsupportedError
        The engine keeps its rows in the memory of one process.
    """
    if spec is not None and store is None:
        raise SpecError(
            "a spec was passed without the name of its store. Pass the name of the store, too"
        )
    if compare and changelog is None:
        raise SpecError(
            "a comparison needs the changelogs of the stores, but no directory of changelogs was "
            "given. Pass the directory with changelog=, --changelog on the command line"
        )
    logs = None if changelog is None else Path(changelog).resolve()
    if logs is not None and not logs.is_dir():
        raise StateError(f"there is no directory of changelogs at {logs}")
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        root, made = state.path, state.engine
    there = sorted(filter(is_name, {*made.stores(root), *made.parents(root)}))
    if store is not None and store not in there:
        raise StateError(f"{root} has no store {store!r}; it has: {', '.join(there) or 'none'}")
    if made.capabilities.process_local:
        raise UnsupportedError(
            f"the engine {made.name!r} stores its rows in the memory of one process. verify reads "
            "rows in a child process, so it cannot check a store of this engine"
        )
    described = None if spec is None else _stored(spec)
    work = _Work(Job(made, root, described, at_most, logs), patience_s, progress)
    with work:
        work.look_for_leftovers()
        for name in [store] if store is not None else there:
            work.verify(name, compare=compare)
    return work.verified


def _stored(spec: StoreSpec) -> StoredSpec:
    return StoredSpec(
        spec.name,
        spec.shape,
        spec.format,
        "bytes",
        "bytes",
        spec.history_retention_ms,
        spec.segment_interval_ms,
        spec.retention_ms,
        spec.window_size_ms,
        spec.retain_duplicates,
        spec.time_ordered,
        spec.indexed,
    )


@dataclass(slots=True)
class _Work:
    """A running verification, which replaces a child process that has crashed."""

    job: Job
    patience_s: float
    progress: Callable[[Progress], object] | None
    verified: Verified = field(default_factory=Verified)
    _child: Child | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _at: Place = field(default_factory=lambda: Place(""))
    _done: int = 0
    _units: int = 0

    def __enter__(self) -> None: ...

    __exit__ = leave

    def _leave(self, normally: bool) -> None:
        self._end_child()

    def look_for_leftovers(self) -> None:
        """Report an interrupted migration."""
        try:
            plan = read_plan(self.job.root)
        except InconsistentStateError as error:
            self._add(Unit("rows", ""), Fault("migration", str(error)))
            return
        if plan is not None:
            store = plan.stores[0]
            why = f"a migration of {', '.join(plan.stores)} is unfinished"
            remedied = f"finish the migration with: {command('migrate', self.job.root, store)}"
            found = Finding("finding", "migration", why, Place(store), remedied)
            self.verified.findings.append(found)

    def verify(self, store: str, *, compare: bool) -> None:
        """Run all units of work of a store."""
        segments = dict(self._segments(store))
        in_segments = store in self.job.engine.parents(self.job.root)
        places: list[str | None] = [*segments] if in_segments else [None]
        logged = 0 if self.job.logs is None else 1 + compare
        self._units += 1 + 2 * len(places) + logged
        for name in places:
            self._do(Unit("files", store, name))
        survey = self._do(Unit("survey", store))
        if survey is not None:
            kind = survey.kind
            if self.job.spec is not None and survey.record.spec is not None:
                raise SpecError(f"the store {store!r} has a stored spec; do not pass another spec")
        else:  # the survey crashed, so the store is read like a store without a spec
            kind = kind_of(None, (), has_children=in_segments, starts=segments.values())
        later = [*[*segments.values()][1:], 0][: len(places)]
        for name, end in zip(places, later, strict=True):
            self._do(Unit("rows", store, name, kind, end))
        if logged:
            contains = {} if survey is None else survey.record.known_offsets
            self._do(Unit("log", store, offsets=contains))
        if compare:
            self._do(Unit("compare", store, kind=kind))

    def _segments(self, store: str) -> Iterator[tuple[str, int]]:
        """Return the names and the start times (ms) of the segments, in ascending order of time.

        The result is empty if all rows of the store are in one database.
        """
        engine, root = self.job.engine, self.job.root
        found: dict[str, int] = {}
        if store in engine.parents(root):
            for name in engine.children(root, store):
                try:
                    found |= starts(store, [name], root / store)
                except InconsistentStateError as error:
                    self._add(Unit("rows", store), Fault("segments", str(error)))
        return iter(sorted(found.items(), key=lambda named: named[1]))

    def _do(self, unit: Unit) -> Survey | None:
        """Let the child process read one part of the data. Add a finding if the process crashes."""
        self._at = Place(unit.store, unit.segment)
        self._show()
        if self._child is None:
            self._child = self._stack.enter_context(Child(self.job, self.patience_s))
        try:
            survey: Survey | None = self._child.do(unit, self._on_message)
        except DiedError as error:
            self._end_child()
            self._add(unit, Fault("died", f"the engine died reading {unit}: {error}"), self._at)
            survey = None
        self._done += 1
        return survey

    def _on_message(self, name: str, content: Any) -> None:
        if name == "finding":
            self.verified.findings.append(content)
        else:
            counts, namespace, key = content
            self.verified.counts.add(counts)
            self._at = Place(self._at.store, self._at.segment, namespace or None, key)
            self._show()

    def _add(self, unit: Unit, fault: Fault, place: Place | None = None) -> None:
        remedied = remedy("corrupt", fault, unit, self.job)
        at = place or Place(unit.store, unit.segment)
        self.verified.findings.append(Finding("corrupt", fault.what, fault.why, at, remedied))

    def _show(self) -> None:
        if self.progress is not None:
            at = self._at
            self.progress(
                Progress(
                    at.store if at.segment is None else f"{at.store}/{at.segment}",
                    self._done,
                    self._units,
                    self.verified.counts.rows,
                    len(self.verified.findings),
                )
            )

    def _end_child(self) -> None:
        self._child = None
        self._stack.close()

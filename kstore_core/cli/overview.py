"""The facts about a store that can be read without its spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kstore_core import formats
from kstore_core.cli.output.exit_codes import DAMAGE, NotFoundError
from kstore_core.cli.segments import SegmentOverview, shared_segments
from kstore_core.engine import Database, Engine, Namespace
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat
from kstore_core.offsets.entries import StoreRecord, merged_record, read_record
from kstore_core.state import StateDirectory, open_state
from kstore_core.state.migration_note import check_not_moving
from kstore_core.state.recognition import recognised
from kstore_core.system.lock import LOCK_FILE
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.databases import read_children
from kstore_core.tables.segments.names import by_id, starts
from kstore_core.tables.upgrade.decision import DEFAULT

__all__ = ["Overview", "newest_format", "open_to_read", "possible_families", "read_overview"]


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts about a store that can be read without its spec.

    Attributes
    ----------
    name : str
    namespaces : dict of str to int
        The namespaces of the store, and the approximate number of rows in each.
    record : StoreRecord
        The stored metadata: offsets, position, stream time and spec.
    first, last : dict of str to bytes
        The first and the last key of each namespace that has rows.
    first_rows : dict of str to bytes
        The value of the first key of each namespace, if the store has one database.
    segments : tuple of SegmentOverview or None
        The segments that were read, oldest first. None if the store has one database and its
        segments were not read.
    shared : bool
        True if the engine keeps all segments of a store in one database. Then the store may have
        segments although ``segments`` is None.
    """

    name: str
    namespaces: dict[str, int]
    record: StoreRecord
    first: dict[str, bytes] = field(default_factory=dict)
    segments: tuple[SegmentOverview, ...] | None = None
    first_rows: dict[str, bytes] = field(default_factory=dict)
    last: dict[str, bytes] = field(default_factory=dict)
    shared: bool = False

    def older_rows(self, value_format: ValueFormat) -> dict[str, int]:
        """Return the approximate number of rows in each format older than ``value_format``."""
        older = [formats.by_name(name) for name in value_format.upgrades]
        return {f.name: self.namespaces[f.namespace] for f in older if f.namespace in self.first}


def _is_of_topology(root: Path) -> bool:
    """Return True if a directory is a root of run_on_spark, or inside the state of such a root."""
    inside = any(part.startswith("subtopology-") for part in root.absolute().parts)
    return inside or any(root.glob("live/subtopology-*"))


def open_to_read(root: Path, engine: str | None) -> StateDirectory:
    """Open a state directory read-only.

    Raises
    ------
    SpecError
        The directory does not look like a state directory, and no engine is given.
    """
    try:
        return open_state(root, engine=engine, read_only=True)
    except SpecError as error:
        if engine is not None or recognised(root):
            raise
        near = _near(root)
        if _is_of_topology(root):
            hint = (
                "it has the state of a topology of run_on_spark, so copy its stores to state "
                "directories with kstore_core.spark.fetch_tasks"
            )
        elif near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = "if it is a state directory, name its engine with --engine"
        raise SpecError(f"{root} does not look like a state directory; {hint}") from error


def _near(root: Path) -> list[Path]:
    """Return the state directories just above or below ``root``."""
    around = [*root.resolve().parents[:2], *sorted(path for path in root.iterdir())]
    return [path for path in around if (path / LOCK_FILE).is_file() or recognised(path)]


def read_overview(state: StateDirectory, store: str, *, whole: bool = False) -> Overview:
    """Return the facts about a store that can be read without its spec.

    Parameters
    ----------
    whole : bool
        True to read every segment. False to read only the segments that are needed to find the
        spec: the newest segment if a spec is stored, otherwise all segments.

    Raises
    ------
    NotFoundError
        There is no store of this name.
    """
    check_not_moving(state.path, store)
    known = state.stores()
    if store not in known:
        there = ", ".join(known) or "none"
        raise NotFoundError(f"{state.path} has no store {store!r}; it has: {there}")
    engine, root = state.engine, state.path
    if store in engine.parents(root):
        return _read_segments(engine, root, store, whole=whole)
    with closing(engine.open(root, store, read_only=True)) as database:
        view = replace(_read_database(database, store), shared=not engine.capabilities.children)
        spec = view.record.spec
        if not whole or spec is None or spec.shape not in ("window", "session"):
            return view
        assert spec.segment_interval_ms is not None
        return replace(view, segments=shared_segments(database, spec.segment_interval_ms))


def _read_segments(engine: Engine, root: Path, store: str, *, whole: bool) -> Overview:
    found = starts(store, engine.children(root, store), root / store)
    record = _record(engine, root, store, found, whole=whole)
    if record.spec is not None and record.spec.segment_interval_ms is not None:
        by_id(store, found, root / store, record.spec.segment_interval_ms)
    segments: list[SegmentOverview] = []
    counts: Counter[str] = Counter()
    first: dict[str, bytes] = {}
    for name in found if whole or record.spec is None else [*found][-1:]:
        try:
            with closing(engine.open_child(root, store, name, read_only=True)) as database:
                seen = _read_database(database, store)
        except FileNotFoundError:  # a writer has just dropped the segment, or never finished it
            continue
        except DAMAGE as error:
            if not whole:
                raise
            segments.append(SegmentOverview(found[name], 0, name, damage=str(error)))
            continue
        rows = sum(count for space, count in seen.namespaces.items() if space != OFFSETS)
        first_key, last_key = (
            next((key for space, key in keys.items() if space != OFFSETS), None)
            for keys in (seen.first, seen.last)
        )
        segments.append(SegmentOverview(found[name], rows, name, first_key, last_key))
        counts.update(seen.namespaces)
        first |= seen.first
    namespaces = {space: counts[space] for space in sorted(counts)}
    return Overview(store, namespaces, record, first, tuple(segments))


def _record(
    engine: Engine, root: Path, store: str, names: Iterable[str], *, whole: bool
) -> StoreRecord:
    """Return the store's metadata from its newest segments.

    If a newest segment is damaged and ``whole`` is True, return the metadata of all undamaged
    segments.
    """
    try:
        return read_children(engine, root, store)
    except DAMAGE:
        if not whole:
            raise
    records = []
    for name in names:
        with (
            suppress(FileNotFoundError, *DAMAGE),
            closing(engine.open_child(root, store, name, read_only=True)) as database,
        ):
            records.append(_read_database(database, store).record)
    return merged_record(reversed(records))


def _read_database(database: Database, store: str) -> Overview:
    found = sorted(database.namespaces())
    record = StoreRecord()
    if OFFSETS in found:
        where = f"the store {store!r} in {database.path}"
        record = read_record(database.namespace(OFFSETS), where)
    namespaces = [database.namespace(name) for name in found]
    counts = {namespace.name: namespace.approximate_count() for namespace in namespaces}
    first = {namespace.name: namespace.first() for namespace in namespaces}
    keys = {name: row[0] for name, row in first.items() if row is not None}
    ends = {} if record.spec is not None else _ends(namespaces)
    rows = {name: row[1] for name, row in first.items() if row is not None}
    return Overview(store, counts, record, keys, first_rows=rows, last=ends)


def _ends(namespaces: Iterable[Namespace]) -> dict[str, bytes]:
    """Return the last key of each namespace that has rows.

    Damage is ignored, because a later read of the rows reports it.
    """
    ends = {}
    for namespace in namespaces:
        with suppress(*DAMAGE):
            row = namespace.first(reverse=True)
            if row is not None:
                ends[namespace.name] = row[0]
    return ends


def possible_families(view: Overview) -> list[str]:
    """Return the families that the store may have according to its stored spec and namespaces.

    A family is a shape, with the prefix ``time_ordered_`` if the keys of the rows begin with the
    time. Such families come last, because they are rare.
    """
    if view.record.spec is not None:
        return [view.record.spec.family]
    families = ["key_value", "versioned"] if view.segments is None else []
    if view.shared or view.segments is not None:
        families += ["window", "session", "time_ordered_window", "time_ordered_session"]
    return formats.fitting(families, view.namespaces) or families


def newest_format(view: Overview, family: str) -> ValueFormat | None:
    """Return the newest format that the stored spec or a namespace proves for this family.

    Return None if they prove no format.
    """
    found = {*view.namespaces} - {DEFAULT}
    seen = [f for f in formats.of_shape(family) if f.namespace in found]
    if view.record.spec is not None:
        seen.append(view.record.spec.format)
    return max(seen, key=lambda f: len(f.upgrades), default=None)

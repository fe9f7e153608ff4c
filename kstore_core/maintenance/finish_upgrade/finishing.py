"""The upgrade of all rows that still have an older format, in batches.

A store that is opened with a newer format converts each row when the row is written or looked up
(docs/upgrade.md). The upgrade converts all other rows, and can be interrupted at any time. If each
segment has its own database, the newest segment is upgraded first, because it contains the spec.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

from kstore_core.checks import existing_directory
from kstore_core.engine import Database, Engine, Rows
from kstore_core.errors import FormatDowngradeError, SpecError, StateError
from kstore_core.formats import ValueFormat, fitting, named, of_shape
from kstore_core.maintenance.finish_upgrade.draining import BATCH_ROWS, drain
from kstore_core.offsets.entries import CLOSED, OPEN, STATUS
from kstore_core.spec import Shape, StoredSpec
from kstore_core.state import open_state
from kstore_core.system.interrupts import interruptible, uninterrupted
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.names import by_id, starts
from kstore_core.tables.segments.prefixes import ID_BYTES
from kstore_core.tables.upgrade.decision import DEFAULT

__all__ = ["Progress", "Upgraded", "databases", "kind_of", "upgrade"]


class Progress(NamedTuple):
    """The progress of an upgrade from one format to another.

    Attributes
    ----------
    older, newer : str
        The names of the formats.
    moved, total : int
        The number of rows moved so far, and the estimated number of all rows to move.
    """

    older: str
    newer: str
    moved: int
    total: int


@dataclass(slots=True)
class Upgraded:
    """The result of an upgrade of a store.

    Attributes
    ----------
    store : str
    before, format : ValueFormat
        The newest format of the store before the upgrade, and the format of all rows afterwards.
    moved : dict of str to int
        The number of moved rows, by the name of their former format.
    dropped : list of str
        The dropped namespaces, which belonged to older formats.
    """

    store: str
    before: ValueFormat
    format: ValueFormat
    moved: dict[str, int] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)


def upgrade(
    path: str | os.PathLike[str],
    store: str,
    to: str | ValueFormat | None = None,
    *,
    shape: Shape | None = None,
    time_ordered: bool | None = None,
    value_format: str | ValueFormat | None = None,
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
    lock_timeout_s: float = 0,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[Progress], object] | None = None,
) -> Upgraded:
    """Convert every row of a store to a newer format, and drop the namespaces of older formats.

    No other process may have the state directory open for writing. If the upgrade is interrupted,
    even by SIGKILL, the store has lost nothing and can be opened with the newer format. The next
    call continues the upgrade. If all rows already have the format, the call changes nothing.

    Parameters
    ----------
    path : path-like
        The state directory.
    store : str
    to : str or ValueFormat, optional
        The new format, by its name or by ``"plain"``, ``"timestamped"`` or ``"headers"``. Default:
        the newest format to which the store can be upgraded.
    shape : {"key_value", "versioned", "window", "session"}, optional
        The shape of the store. It is required if the directory does not determine the shape.
    time_ordered : bool, optional
        True if the keys of the rows begin with the time. Default: the value that the directory
        determines, or False if the directory does not determine the value.
    value_format : str or ValueFormat, optional
        The current format, in the same form as ``to``. The argument is used only if the directory
        does not determine the format.
    engine, options, lock_timeout_s
        The arguments of :func:`kstore_core.open_state`.
    batch_rows : int
        The maximum number of rows per batch. A batch of large rows has fewer rows.
    progress : callable, optional
        A function that is called with a `Progress` after each batch. If it raises an exception, the
        upgrade ends.

    Raises
    ------
    StateError
        The state directory or the store does not exist, or the store has no segments yet.
    SpecError
        The directory does not determine the shape, or ``shape``, ``time_ordered`` or ``to``
        contradicts the store.
    FormatDowngradeError
        The store has a newer format than ``to``.
    InconsistentStateError
        The store has a namespace that no store of its shape has.
    FormatError
        A row cannot be converted. The batch of this row and all later batches are unchanged.
    EngineLockedError
        Another process has the directory open for writing.
    """
    if type(batch_rows) is not int:
        raise TypeError(f"batch_rows must be an int, not {batch_rows!r}")
    if not (to is None or isinstance(to, (str, ValueFormat))):
        raise TypeError(f"to must be a ValueFormat or the name of a format, not {to!r}")
    if time_ordered is not None and type(time_ordered) is not bool:
        raise TypeError(f"time_ordered must be a bool, not {time_ordered!r}")
    if shape is not None and shape not in get_args(Shape):
        raise SpecError(f"shape must be one of {', '.join(get_args(Shape))}, not {shape!r}")
    if engine is None:
        existing_directory(path)
    if batch_rows < 1:
        raise ValueError(f"batch_rows must be 1 or more, not {batch_rows}")
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        if store not in state.stores():
            there = ", ".join(state.stores()) or "none"
            raise StateError(f"{state.path} has no store {store!r}; it has: {there}")
        engine = state.engine
    done: Upgraded | None = None
    family = ""
    with open_state(path, engine=engine, lock_timeout_s=lock_timeout_s) as state:
        spec = state.stored_spec(store)
        found = databases(engine, state.path, store, spec)
        if not found:
            raise StateError(
                f"the store {store!r} in {state.path} has no segments, so it has no rows to "
                "upgrade. Open the store with a spec of the newer format"
            )
        in_segments = store in engine.parents(state.path)

        def work(left: int, database: Database) -> None:
            nonlocal done, family
            if done is None:
                family, before = kind_of(
                    database,
                    spec,
                    shape,
                    time_ordered,
                    in_segments,
                    shared=not engine.capabilities.children,
                    value_format=value_format,
                )
                done = Upgraded(store, before, _target(database, to, before, family))
            moved, dropped = drain(
                database,
                done.format,
                shape=family,
                store=store,
                segment_bytes=0 if in_segments else ID_BYTES,
                batch_rows=batch_rows,
                callback=_BatchProgress(done, left, progress),
            )
            for older, count in moved.items():
                done.moved[older] = done.moved.get(older, 0) + count
            done.dropped = sorted({*done.dropped, *dropped})

        for left, open_one in zip(range(len(found), 0, -1), found, strict=True):
            _with_opened(open_one, partial(work, left))
    assert done is not None
    return done


def databases(
    engine: Engine, root: Path, store: str, spec: StoredSpec | None
) -> list[Callable[..., Database]]:
    """Return functions that open the databases of a store, one function per database.

    A store has either one database for all rows, or one database per segment. The newest segment
    comes first. The newest directories are left out if they contain no database, because such a
    directory has no spec. Each function has the parameters ``durability`` and ``read_only``.

    Raises
    ------
    InconsistentStateError
        Two directories are for the same segment, or a directory does not belong to the store.
    """
    if store not in engine.parents(root):
        return [partial(engine.open, root, store)]
    found = starts(store, engine.children(root, store), root / store)
    if spec is not None and spec.segment_interval_ms is not None:
        by_id(store, found, root / store, spec.segment_interval_ms)
    names = [*reversed(found)]
    while names and not _is_there(engine, root, store, names[0]):
        del names[0]
    return [partial(engine.open_child, root, store, name) for name in names]


def _is_there(engine: Engine, root: Path, store: str, name: str) -> bool:
    try:
        engine.open_child(root, store, name, read_only=True).close()
    except FileNotFoundError:
        return False
    return True


def _with_opened(open_one: Callable[[], Database], work: Callable[[Database], None]) -> None:
    """Open a database and call ``work`` with it. During the call the stored status is "open"."""
    with uninterrupted():
        database = open_one()
        try:
            database.namespace(OFFSETS)
            database.write({OFFSETS: Rows([STATUS], [OPEN])})
            try:
                with interruptible():
                    work(database)
            finally:
                database.write({OFFSETS: Rows([STATUS], [CLOSED])})
        finally:
            database.close()


@dataclass(slots=True)
class _BatchProgress:
    """A callback that turns the batches of one database into the progress of the whole store.

    Attributes
    ----------
    left : int
        The number of unfinished databases, including the current database. The estimate of all
        rows assumes that these databases have the same size.
    """

    done: Upgraded
    left: int
    progress: Callable[[Progress], object] | None

    def __call__(self, older: ValueFormat, newer: ValueFormat, moved: int, total: int) -> None:
        if self.progress is not None:
            before = self.done.moved.get(older.name, 0)
            about = before + self.left * max(total, moved)
            self.progress(Progress(older.name, newer.name, before + moved, about))


def kind_of(
    database: Database,
    spec: StoredSpec | None,
    shape: Shape | None,
    time_ordered: bool | None,
    in_segments: bool,
    *,
    shared: bool = False,
    value_format: str | ValueFormat | None = None,
) -> tuple[str, ValueFormat]:
    """Return the family of a store, and the newest format that the store has.

    The stored spec and the namespaces of the database determine the family and the format. A family
    is a shape, with the prefix ``time_ordered_`` if the keys of the rows begin with the time.

    Parameters
    ----------
    shared : bool
        True if the segments of a window or session store may share the database.
    value_format : str or ValueFormat, optional
        The format to return if neither the spec nor the namespaces determine it. Default: the
        format of the default namespace.
    """
    found = {DEFAULT, *database.namespaces()}
    where = f"the store at {database.path}"
    if spec is not None:
        families: tuple[str, ...] = (spec.family,)
    elif in_segments or (shared and (shape in ("window", "session") or time_ordered)):
        families = ("window", "session", "time_ordered_window", "time_ordered_session")
    else:
        families = ("key_value", "versioned")
    able = fitting(families, found)
    asked = [
        family
        for family in able
        if (shape is None or family.endswith(shape))
        and (time_ordered is None or _is_ordered(family) == time_ordered)
    ]
    if able and not asked:
        known_families = [
            family for family in able if spec or time_ordered or not _is_ordered(family)
        ]
        wanted = "time_ordered_" * bool(time_ordered) + (shape or _shape_of(able[0]))
        raise SpecError(
            f"{where} has the shape {' or '.join(known_families or able)}, but {wanted} was "
            "passed. Pass the right shape, or leave out shape and time_ordered"
        )
    if time_ordered is None and len(asked) > 1:  # time-ordered stores are rare
        asked = [family for family in asked if not _is_ordered(family)] or asked
    if shape is None and len(asked) > 1:
        first, other = map(_shape_of, asked)
        raise SpecError(
            f"{where} has no stored spec, and its namespaces fit both a {_worded(first)} store "
            f"and a {_worded(other)} store. Choose one of these shapes with shape= in Python, or "
            "with --shape on the command line"
        )
    chosen = (asked or families)[0]
    kin = of_shape(chosen)
    seen = [f for f in kin if f.namespace in found - {DEFAULT}]
    if spec is not None:
        seen.append(spec.format)
    if isinstance(value_format, str):
        value_format = named(value_format, chosen)
    default = value_format or [f for f in kin if f.namespace == DEFAULT][-1]
    return chosen, max(seen, key=lambda f: len(f.upgrades), default=default)


def _is_ordered(family: str) -> bool:
    return family.startswith("time_ordered_")


def _shape_of(family: str) -> str:
    return family.removeprefix("time_ordered_")


def _worded(shape: str) -> str:
    return shape.replace("_", "-")


def _target(
    database: Database, to: str | ValueFormat | None, before: ValueFormat, family: str
) -> ValueFormat:
    if isinstance(to, str):
        to = named(to, family)
    elif to is None:
        reached = [f for f in of_shape(family) if f == before or before.name in f.upgrades]
        to = max(reached, key=lambda f: len(f.upgrades))
    if before == to or before.name in to.upgrades:
        return to
    if to.name in before.upgrades:
        raise FormatDowngradeError(
            f"the store at {database.path} has the format {before.name!r}, which is newer than "
            f"{to.name!r}, and upgrade cannot downgrade a store. Rewrite the store with: kstore "
            f"migrate PATH STORE --to {to.name}"
        )
    raise SpecError(
        f"the store at {database.path} cannot be upgraded, because there is no upgrade from the "
        f"format {before.name!r} to {to.name!r}"
    )

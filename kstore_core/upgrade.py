"""Finishing an upgrade at once: every row that is still in an older format is moved, in batches.

A store that is opened as a newer format moves its rows one by one, as they are written or looked up
(docs/upgrade.md). This moves the rest, and may be interrupted anywhere: each batch puts the
converted rows and removes the old ones, both or neither.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from kstore_core.codec.upgrades import convert_rows
from kstore_core.engine import Chunk, Database, Engine, Namespace, Rows
from kstore_core.errors import FormatDowngradeError, SpecError, StateError
from kstore_core.formats import FORMATS, ValueFormat, by_name, named
from kstore_core.offsets import CLOSED, OPEN, STATUS, StoreRecord, commit_rows, read_record
from kstore_core.opening import DEFAULT, check_namespaces, drop_empty, look_at
from kstore_core.spec import Shape
from kstore_core.state import open_state
from kstore_core.tables import OFFSETS

__all__ = ["Progress", "Upgraded", "upgrade"]

BATCH_ROWS = 10_000
_BATCH_BYTES = 8 * 1024 * 1024


class Progress(NamedTuple):
    """How far the move from one format to the next is.

    Attributes
    ----------
    older, newer : str
        Names of formats.
    moved, total : int
        Rows that have been moved, and about how many there were.
    """

    older: str
    newer: str
    moved: int
    total: int


@dataclass(slots=True)
class Upgraded:
    """What became of a store.

    Attributes
    ----------
    store : str
    before, format : ValueFormat
        What it was, the newest that was seen of it, and what it is.
    moved : dict of str to int
        How many rows were moved, by the format that they were in.
    dropped : list of str
        Namespaces of older formats that are gone.
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
    engine: str | Engine | None = None,
    options: Mapping[str, Any] | None = None,
    lock_timeout_s: float = 0,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[Progress], object] | None = None,
) -> Upgraded:
    """Move every row of a store to a newer format, and let go of the namespace of the older one.

    The state directory must not be open for writing elsewhere. What interrupts this, SIGKILL
    included, leaves a store with the same contents that opens as the newer format; calling it again
    goes on. A store that is there already is left as it is.

    Parameters
    ----------
    path : path-like
        The state directory.
    store : str
    to : str or ValueFormat, optional
        The format, by its name or by ``"plain"``, ``"timestamped"`` or ``"headers"``; the newest
        that there is if left out.
    shape : {"key_value", "versioned"}, optional
        Needed where the directory does not tell.
    engine, options, lock_timeout_s
        As in :func:`kstore_core.open_state`.
    batch_rows : int
        About how many rows a batch moves; fewer where they are large.
    progress : callable, optional
        Called after each batch; what it raises ends the upgrade there.

    Raises
    ------
    StateError
        There is no such directory or store.
    SpecError
        The directory does not tell the store's shape, or ``shape`` or ``to`` does not fit it.
    FormatDowngradeError
        The store is of a newer format than ``to``.
    InconsistentStateError
        It holds what no store of its shape holds.
    FormatError
        A row cannot be converted; it and those after it stay as they are.
    EngineLockedError
        Somebody else has the directory open for writing.
    """
    if type(batch_rows) is not int:
        raise TypeError(f"batch_rows is an int, not {batch_rows!r}")
    if not (to is None or isinstance(to, (str, ValueFormat))):
        raise TypeError(f"to is a format or the name of one, not {to!r}")
    if shape not in (None, "key_value", "versioned"):
        raise SpecError(f"shape is 'key_value' or 'versioned', not {shape!r}")
    if engine is None and os.fspath(path) and not Path(path).is_dir():
        raise StateError(f"no state directory at {path}")
    if batch_rows < 1:
        raise ValueError(f"batch_rows is {batch_rows}; it must be at least 1")
    with open_state(path, engine=engine, options=options, read_only=True) as state:
        if store not in state.stores():
            there = ", ".join(state.stores()) or "none"
            raise StateError(f"{state.path} has no store {store!r}; it has: {there}")
        engine = state.engine
    with (
        open_state(path, engine=engine, lock_timeout_s=lock_timeout_s) as state,
        _opened(engine, state.path, store) as database,
    ):
        record = read_record(database.namespace(OFFSETS))
        before = _format_of(database, record, shape)
        target = _target(database, to, before)
        found = check_namespaces(database, target)
        done = Upgraded(store, before, target)
        while (step := _next_step(database, target)) is not None:
            older, newer = step
            moved = _drain(database, record, older, newer, batch_rows, progress)
            done.moved[older.name] = done.moved.get(older.name, 0) + moved
        database.namespace(target.namespace)
        if entries := _moved_spec(record, target):
            database.write(entries)
        drop_empty(database, look_at(database, target))
        done.dropped = sorted(found - set(database.namespaces()))
        return done


@contextmanager
def _opened(engine: Engine, root: Any, store: str) -> Iterator[Database]:
    """A store's database, marked as open for as long as it is."""
    database = engine.open(root, store)
    try:
        database.namespace(OFFSETS)
        database.write({OFFSETS: Rows([STATUS], [OPEN])})
        try:
            yield database
        finally:
            database.write({OFFSETS: Rows([STATUS], [CLOSED])})
    finally:
        database.close()


def _format_of(database: Database, record: StoreRecord, shape: Shape | None) -> ValueFormat:
    """The newest format that the stored spec and the namespaces tell of."""
    found = set(database.namespaces()) - {DEFAULT}
    seen = [f for f in FORMATS.values() if f.namespace in found]
    if record.spec is not None:
        seen.append(record.spec.format)
    versioned = seen[0].versioned if seen else shape == "versioned"
    if not seen and shape is None:
        raise SpecError(
            f"the store at {database.path} keeps no spec, and its namespaces are those of a plain "
            'key-value store and of a versioned one: say which with shape="key_value" or '
            '"versioned", on the command line with --shape'
        )
    if shape is not None and versioned != (shape == "versioned"):
        kind = "versioned" if versioned else "key_value"
        raise SpecError(f"the store at {database.path} is of the shape {kind}, not {shape}")
    oldest = named("plain", versioned=versioned)
    return max(seen, key=lambda f: len(f.upgrades), default=oldest)


def _target(database: Database, to: str | ValueFormat | None, before: ValueFormat) -> ValueFormat:
    if isinstance(to, str):
        to = named(to, versioned=before.versioned)
    elif to is None:
        kin = [f for f in FORMATS.values() if f.versioned == before.versioned]
        to = max(kin, key=lambda f: len(f.upgrades))
    if before == to or before.name in to.upgrades:
        return to
    if to.name in before.upgrades:
        raise FormatDowngradeError(
            f"the store at {database.path} has the format {before.name!r} and {to.name!r} is an "
            "older one; a store is not downgraded in place. Rebuild it from its changelog in an "
            "empty directory"
        )
    raise SpecError(f"no upgrade leads from the format {before.name!r} to {to.name!r}")


def _next_step(database: Database, target: ValueFormat) -> tuple[ValueFormat, ValueFormat] | None:
    """The oldest format that has rows, and the next one that they go to; None at the end.

    That is the target itself, unless an earlier upgrade was begun and not finished: its namespace
    is there then, and rows in it are newer than those that it has not reached.
    """
    found = set(database.namespaces())
    present = [f for f in map(by_name, target.upgrades) if f.namespace in found]
    for older in present:
        if database.namespace(older.namespace).first() is not None:
            begun = [f for f in present if f.namespace != DEFAULT and older.name in f.upgrades]
            return older, (begun or [target])[0]
    return None


def _drain(
    database: Database,
    record: StoreRecord,
    older: ValueFormat,
    newer: ValueFormat,
    batch_rows: int,
    progress: Callable[[Progress], object] | None,
) -> int:
    """Move every row of one namespace to another; returns how many there were."""
    old, new = database.namespace(older.namespace), database.namespace(newer.namespace)
    convert = newer.upgrades[older.name]
    total = old.approximate_count()
    moved = 0
    lo: bytes | None = None
    while (chunk := _take(old, lo, batch_rows)) is not None:
        keys, values = chunk
        first, behind = keys[0], keys[-1] + b"\0"
        count = len(keys)
        if new.first(first, behind) is not None:
            keys, values = _without(keys, values, new.get_many(keys))
        converted = convert_rows(convert, keys, values)
        database.write(
            {
                older.namespace: Rows(deleted_ranges=[(first, behind)]),
                newer.namespace: Rows(keys, [*converted]),
                **_moved_spec(record, newer),
            }
        )
        moved += count
        lo = behind
        if progress is not None:
            progress(Progress(older.name, newer.name, moved, max(total, moved)))
    return moved


def _take(namespace: Namespace, lo: bytes | None, count: int) -> Chunk | None:
    """About ``count`` rows from ``lo`` on, fewer where they are large; None where there are none.

    Each time by a scan of its own: an open one would keep the engine from using again what the
    batches before have freed.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for more_keys, more_values in namespace.scan(lo):
        sizes = [*accumulate(map(len, more_values), initial=size)]
        taken = min(len(more_keys), count - len(keys), bisect_left(sizes, _BATCH_BYTES))
        keys += more_keys[:taken]
        values += more_values[:taken]
        size = sizes[taken]
        if len(keys) == count or size >= _BATCH_BYTES:
            break
    return (keys, values) if keys else None


def _without(
    keys: list[bytes], values: list[bytes], newer: list[bytes | None]
) -> tuple[list[bytes], list[bytes]]:
    """The rows that no newer one stands in for."""
    kept = [index for index, value in enumerate(newer) if value is None]
    return [keys[index] for index in kept], [values[index] for index in kept]


def _moved_spec(record: StoreRecord, value_format: ValueFormat) -> dict[str, Rows]:
    """What says in the stored spec, where there is one, that the store is of a newer format."""
    if record.spec is None or record.spec.format.name not in value_format.upgrades:
        return {}
    record.spec = replace(record.spec, format=value_format)
    entries = commit_rows(record, offsets=None, position=None, stream_time=None, spec=record.spec)
    return {OFFSETS: entries}

"""What a state directory holds, as far as it can be seen without being told."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kstore_core import formats, stores
from kstore_core.cli.errors import NotFoundError
from kstore_core.engine import Database
from kstore_core.errors import SpecError, UnsupportedError
from kstore_core.formats import ValueFormat
from kstore_core.lock import LOCK_FILE
from kstore_core.offsets import StoreRecord, read_record
from kstore_core.opening import DEFAULT
from kstore_core.segments.storage import read_children
from kstore_core.spec import StoreSpec
from kstore_core.state import StateDirectory, open_state
from kstore_core.tables import OFFSETS

__all__ = [
    "Described",
    "Sight",
    "describe",
    "look",
    "open_to_read",
    "seen_format",
    "seen_shapes",
]


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a store.

    Attributes
    ----------
    name : str
    namespaces : dict of str to int
        Its namespaces and about how many rows each has.
    record : StoreRecord
        Offsets, position, stream time and the stored spec.
    full : frozenset of str
        The namespaces that hold rows at all.
    segments : int or None
        How many segments have a database of their own; None where none has.
    """

    name: str
    namespaces: dict[str, int]
    record: StoreRecord
    full: frozenset[str] = frozenset()
    segments: int | None = None

    def older_rows(self, value_format: ValueFormat) -> dict[str, int]:
        """About how many rows an upgrade to ``value_format`` has not reached, by their format."""
        older = [formats.by_name(name) for name in value_format.upgrades]
        return {f.name: self.namespaces[f.namespace] for f in older if f.namespace in self.full}


@dataclass(frozen=True, slots=True)
class Described:
    """What a store is, and how that is known.

    Attributes
    ----------
    spec : StoreSpec
        With the serde of bytes for keys and values.
    key_serde, value_serde : str
        Names; of serdes that may not be known here.
    known_from : str
        ``"spec"``, ``"namespaces"`` or ``"options"``.
    older_rows : dict of str to int
        About how many rows are still in an older format, by its name.
    """

    spec: StoreSpec
    key_serde: str
    value_serde: str
    known_from: str
    older_rows: dict[str, int]


def open_to_read(root: Path, engine: str | None) -> StateDirectory:
    """A state directory, read-only.

    Raises
    ------
    SpecError
        It is none, as far as can be seen, and no engine is given.
    """
    try:
        return open_state(root, engine=engine, read_only=True)
    except SpecError as error:
        if engine is not None:
            raise
        near = _near(root)
        hint = f"did you mean {near[0]}?" if near else "if it is one, name its engine: --engine"
        raise SpecError(f"{root} does not look like a state directory; {hint}") from error


def _near(root: Path) -> list[Path]:
    """State directories just above or below ``root``."""
    around = [*root.resolve().parents[:2], *sorted(path for path in root.iterdir())]
    return [path for path in around if (path / LOCK_FILE).is_file() or (path / "rocksdb").is_dir()]


def look(state: StateDirectory, store: str) -> Sight:
    """What can be seen of a store; where its segments have a database each, of all of them.

    Raises
    ------
    NotFoundError
        There is none of this name.
    """
    known = state.stores()
    if store not in known:
        there = ", ".join(known) or "none"
        raise NotFoundError(f"no store {store!r} in {state.path}; there are: {there}")
    engine, root = state.engine, state.path
    if store not in engine.parents(root):
        return _seen(engine.open(root, store, read_only=True), store)
    segments = engine.children(root, store)
    sight = Sight(store, {}, read_children(engine, root, store), segments=len(segments))
    for child in segments:
        with suppress(FileNotFoundError):  # it has been dropped meanwhile, or was never finished
            seen = _seen(engine.open_child(root, store, child, read_only=True), store)
            counts = Counter(sight.namespaces) + Counter(seen.namespaces)
            names = sorted({*sight.namespaces, *seen.namespaces})
            sight = replace(
                sight,
                namespaces={name: counts[name] for name in names},
                full=sight.full | seen.full,
            )
    return sight


def _seen(database: Database, store: str) -> Sight:
    with closing(database):
        found = sorted(database.namespaces())
        record = read_record(database.namespace(OFFSETS)) if OFFSETS in found else StoreRecord()
        namespaces = [database.namespace(name) for name in found]
        counts = {namespace.name: namespace.approximate_count() for namespace in namespaces}
        full = {namespace.name for namespace in namespaces if namespace.first() is not None}
    return Sight(store, counts, record, frozenset(full))


def seen_shapes(sight: Sight) -> list[str]:
    """The shapes that the store may have, as far as its stored spec and its namespaces tell."""
    if sight.record.spec is not None:
        return [sight.record.spec.shape]
    shapes = ["key_value", "versioned"] if sight.segments is None else ["window", "session"]
    return [one for one in shapes if all(one in f.shapes for f in _telling(sight))] or shapes


def _telling(sight: Sight) -> list[ValueFormat]:
    """The formats that have a namespace of their own here."""
    found = {*sight.namespaces} - {DEFAULT}
    return [f for f in formats.FORMATS.values() if f.namespace in found]


def describe(
    sight: Sight,
    *,
    shape: str | None = None,
    value_format: str | None = None,
    history_retention_ms: int | None = None,
    segment_interval_ms: int | None = None,
    key_serde: str | None = None,
    value_serde: str | None = None,
) -> Described:
    """What a store is: its stored spec, else what its namespaces tell, else the options given.

    Raises
    ------
    SpecError
        It cannot be told, and the options do not say; or they contradict what is known.
    UnsupportedError
        It is a window or session store.
    """
    shapes = seen_shapes(sight)
    if {"window", "session"}.intersection(shapes):
        raise UnsupportedError(
            f"{sight.name!r} is a {' or '.join(shapes)} store, whose rows this command cannot show "
            "yet; kstore inspect tells what it is"
        )
    stored = sight.record.spec
    known = seen_format(sight)
    asked = _asked(shape, value_format)
    if known is None and asked is None:
        raise SpecError(
            f"the store {sight.name!r} keeps no spec, and its namespaces "
            f"({', '.join(sight.namespaces)}) are those of a plain key-value store and of a "
            "versioned one: add --shape key-value, or --shape versioned with the "
            "--history-retention that it was written with, such as 60s"
        )
    if known is not None and asked is not None and known != asked:
        raise SpecError(
            f"the store {sight.name!r} is {known.name}, by its "
            f"{'namespaces' if stored is None else 'stored spec'}; leave --shape and --format out"
        )
    chosen = asked if known is None else known
    assert chosen is not None
    if stored is not None:
        if segment_interval_ms not in (None, stored.segment_interval_ms):
            raise SpecError(
                f"the store {sight.name!r} has a segment interval of {stored.segment_interval_ms} "
                "ms, by its stored spec; leave --segment-interval out"
            )
        key_serde = key_serde or stored.key
        value_serde = value_serde or stored.value
        segment_interval_ms = stored.segment_interval_ms
        if history_retention_ms is None:
            history_retention_ms = stored.history_retention_ms
    if chosen.versioned and history_retention_ms is None:
        raise SpecError(
            f"the store {sight.name!r} does not say how long its history is: add "
            "--history-retention, such as 60s or 30d, and --segment-interval if that was not "
            "Kafka's default"
        )
    spec = _spec(sight.name, chosen, history_retention_ms, segment_interval_ms)
    source = "options" if known is None else "namespaces" if stored is None else "spec"
    older_rows = sight.older_rows(chosen)
    return Described(spec, key_serde or "bytes", value_serde or "bytes", source, older_rows)


def seen_format(sight: Sight) -> ValueFormat | None:
    """The newest format that the stored spec and the namespaces tell without doubt, or None."""
    seen = _telling(sight)
    if sight.record.spec is not None:
        seen.append(sight.record.spec.format)
    return max(seen, key=lambda f: len(f.upgrades), default=None)


def _asked(shape: str | None, value_format: str | None) -> ValueFormat | None:
    """The format that the options name, or None where they say nothing."""
    if shape is None:
        if value_format is not None:
            raise SpecError("--format says nothing without --shape")
        return None
    return formats.named(value_format or "plain", shape.replace("-", "_"))


def _spec(
    name: str, value_format: ValueFormat, retention: int | None, interval: int | None
) -> StoreSpec:
    """A spec whose keys and values are bytes."""
    if not value_format.versioned or retention is None:
        return StoreSpec(name, "key_value", value_format)
    if value_format == formats.VERSIONED:
        return stores.versioned_key_value(name, retention, interval)
    return stores.versioned_key_value_with_headers(name, retention, interval)

"""The spec of a store, which the directory stores or the command-line options describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kstore_core import formats, stores
from kstore_core.cli.overview import Overview, newest_format, possible_families
from kstore_core.cli.segments import SegmentOverview
from kstore_core.clock import segment_id
from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError, SpecError
from kstore_core.formats import ValueFormat, named
from kstore_core.keys import rows_of
from kstore_core.offsets.entries import StoreRecord
from kstore_core.spec import StoreSpec
from kstore_core.tables import OFFSETS
from kstore_core.tables.segments.prefixes import ID_BYTES
from kstore_core.tables.version_scans import LATEST_PREFIX

__all__ = ["Described", "describe", "described_by_options", "flag", "in_words"]

_ORDERED = "time_ordered_"
_INTERVAL = "segment_interval_ms"
_TAKES = {
    "key_value": (),
    "versioned": ("history_retention_ms", _INTERVAL),
    "window": ("retention_ms", "window_size_ms", _INTERVAL),
    "session": ("retention_ms", _INTERVAL),
}
"""The names of the times in a spec of each shape. All except the segment interval are required."""
_FIXED = (_INTERVAL, "window_size_ms")
_IN_SEGMENTS = ("window", "session")
_INDEX = b"\x01"
_CHOICES = {
    "key_value": "--shape key-value",
    "versioned": "--shape versioned with --history-retention",
    "window": "--shape window with --retention and --window-size",
    "session": "--shape session with --retention",
}
_MAKE: dict[str, Callable[..., StoreSpec]] = {
    "key_value": stores.key_value,
    "versioned": stores.versioned_key_value,
    "window": stores.window,
    "session": stores.session,
}


@dataclass(frozen=True, slots=True)
class Described:
    """The spec of a store, and the source of the spec.

    Attributes
    ----------
    spec : StoreSpec
        The spec, but with bytes as the serdes of keys and values.
    key_serde, value_serde : str
        The names of the serdes. They may be serdes that kstore does not know.
    known_from : str
        The source of the spec: ``"spec"``, ``"namespaces"`` or ``"options"``.
    older : tuple of str
        The names of the older formats that some rows still have.
    numbered : bool
        True if rows have sequence numbers, although the spec does not retain duplicates.
    unindexed : bool
        True if the spec has an index, but the store has rows and no index rows.
    """

    spec: StoreSpec
    key_serde: str
    value_serde: str
    known_from: str
    older: tuple[str, ...]
    numbered: bool = False
    unindexed: bool = False


def describe(
    view: Overview,
    *,
    shape: str | None = None,
    value_format: str | None = None,
    time_ordered: bool = False,
    without_index: bool = False,
    retain_duplicates: bool = False,
    key_serde: str | None = None,
    value_serde: str | None = None,
    **times: int | None,
) -> Described:
    """Return the stored spec of a store, or else the spec from its namespaces and the options.

    Parameters
    ----------
    **times
        The retention, the window size and the segment interval in ms, by their names in a spec. For
        a versioned store, ``retention_ms`` is accepted as ``history_retention_ms``.

    Raises
    ------
    SpecError
        The store has no stored spec and the options do not describe it, or the options contradict
        the store.
    """
    given: dict[str, Any] = {name: ms for name, ms in times.items() if ms is not None}
    if shape is None and value_format is not None:
        raise SpecError("--format was given without --shape; add --shape")
    family = _family(view, shape, time_ordered)
    known = newest_format(view, family)
    chosen = _format(view, known, value_format, family)
    if family == "versioned" and "retention_ms" in given and "history_retention_ms" not in given:
        given["history_retention_ms"] = given.pop("retention_ms")
    flags = {"retain_duplicates": family.endswith("window")} if retain_duplicates else {}
    flags |= {"without_index": family.startswith(_ORDERED)} if without_index else {}
    times_of = _TAKES[family.removeprefix(_ORDERED)]
    for name, takes in {**{name: name in times_of for name in given}, **flags}.items():
        if not takes:
            needs = ""
            if name == "without_index":
                needs = "; it is for window and session stores with --time-ordered"
            raise SpecError(
                f"the store {view.name!r} is a {in_words(family)} store, so {flag(name)} does not "
                f"apply{needs}"
            )
    stored = view.record.spec
    if stored is None:
        spec = _spec(
            view, family, chosen, given, duplicates=retain_duplicates, indexed=not without_index
        )
        source = "options" if known is None else "namespaces"
        key_serde, value_serde = key_serde or "bytes", value_serde or "bytes"
    else:
        said = {name: given.get(name, getattr(stored, name)) for name in _FIXED}
        said["retain_duplicates"] = retain_duplicates or stored.retain_duplicates
        said["indexed"] = stored.indexed and not without_index
        for name, value in said.items():
            if value != getattr(stored, name):
                raise SpecError(
                    f"the store {view.name!r} has {name}={getattr(stored, name)} in its stored "
                    f"spec; leave {flag(name)} out"
                )
        of_bytes = replace(stored, key="bytes", value="bytes", format=chosen)
        spec, source = replace(of_bytes.spec(), **given), "spec"
        key_serde, value_serde = key_serde or stored.key, value_serde or stored.value
    older = tuple(view.older_rows(chosen))
    described = Described(spec, key_serde, value_serde, source, older)
    return described if stored is not None else _with_rows(described, view)


def described_by_options(store: str, options: Mapping[str, Any]) -> StoreSpec:
    """Return the spec that the options describe, without reading the store.

    Raises
    ------
    SpecError
        The options are incomplete, or contradict each other.
    """
    shape = options["shape"]
    segments = () if shape in _IN_SEGMENTS else None
    if options["time_ordered"] and segments is None:
        raise SpecError(f"a {shape} store is never time-ordered; leave out --time-ordered")
    if options["without_index"] and not options["time_ordered"]:
        raise SpecError(
            "--without-index does not apply without --time-ordered; pass both or neither"
        )
    given = {name for name, value in options.items() if value is not None}
    given |= {"history_retention_ms"} if "retention_ms" in given else set()
    wanted = [name for name in _TAKES[shape.replace("-", "_")] if name != _INTERVAL]
    missing = " and ".join(flag(name) for name in wanted if name not in given)
    if missing:
        raise SpecError(f"a {shape} store needs {missing}; pass a duration, such as 30d")
    return describe(Overview(store, {}, StoreRecord(), segments=segments), **options).spec


def flag(name: str) -> str:
    """Return the command-line option for a field of a spec."""
    return {"value_format": "--format", "indexed": "--without-index"}.get(
        name, f"--{in_words(name.removesuffix('_ms'))}"
    )


def in_words(family: str) -> str:
    """Return the readable form of a shape's name or of an option's name."""
    return family.replace(_ORDERED, "time-ordered ").replace("_", "-")


def _family(view: Overview, shape: str | None, time_ordered: bool) -> str:
    able = possible_families(view)
    asked = [
        family
        for family in able
        if (shape is None or family.endswith(shape.replace("-", "_")))
        and (family.startswith(_ORDERED) or not time_ordered)
    ]
    if not time_ordered:
        asked = [family for family in asked if not family.startswith(_ORDERED)] or asked
    if not asked:
        source = "namespaces" if view.record.spec is None else "stored spec"
        raise SpecError(
            f"the store {view.name!r} is a {in_words(able[0])} store according to its {source}; "
            "leave --shape, --format and --time-ordered out"
        )
    if len(asked) == 1:
        return asked[0]
    first, *others = map(in_words, asked)
    kinds = " store, a ".join(others[:-1])
    also = f", a {kinds} store" * bool(kinds) + f" and a {others[-1]} store"
    plain = "" if newest_format(view, asked[0]) else "plain "
    choices = ", or ".join(_CHOICES[family.removeprefix(_ORDERED)] for family in asked)
    raise SpecError(
        f"the store {view.name!r} has no stored spec, and its namespaces "
        f"({', '.join(view.namespaces)}) fit a {plain}{first} store{also}. Add {choices}, and pass "
        "the values that the writer used, such as 60s"
    )


def _format(
    view: Overview, known: ValueFormat | None, asked: str | None, family: str
) -> ValueFormat:
    if known is None or asked is not None:
        wanted = named(asked or "plain", family)
    else:
        wanted = known
    if known is not None and wanted != known:
        raise SpecError(
            f"the store {view.name!r} has the format {known.name} according to its "
            f"{'namespaces' if view.record.spec is None else 'stored spec'}; leave --shape and "
            "--format out"
        )
    return wanted


def _spec(
    view: Overview,
    family: str,
    value_format: ValueFormat,
    times: Mapping[str, Any],
    *,
    duplicates: bool,
    indexed: bool,
) -> StoreSpec:
    """Return the spec that the options describe, with bytes as the serdes of keys and values."""
    shape, ordered = family.removeprefix(_ORDERED), family.startswith(_ORDERED)
    missing = [flag(name) for name in _TAKES[shape] if name not in {*times, _INTERVAL}]
    if missing:
        raise SpecError(
            f"the {in_words(family)} store {view.name!r} has no stored spec. Add "
            f"{' and '.join(missing)} with the values that the writer used, such as 60s or 30d. "
            "Add --segment-interval if the writer did not use Kafka's default"
        )
    order: dict[str, Any] = {"time_ordered": True, "indexed": indexed} if ordered else {}
    order |= {"retain_duplicates": True} if duplicates else {}
    spec = replace(_MAKE[shape](view.name, **times, **order), format=value_format)
    interval = spec.segment_interval_ms
    if shape == "versioned" and not _fits(view, interval):
        raise SpecError(
            f"the rows of {view.name!r} are not rows of a versioned store with segments of "
            f"{interval} ms, so --shape or --segment-interval differs from the value that the "
            "writer used"
        )
    for segment in _segments(view, shape, interval):
        assert interval is not None
        schema = rows_of(shape, time_ordered=ordered).schema
        if not segment.lies_at(interval, view.name):
            raise SpecError(
                f"the segment {segment.name!r} does not begin at a multiple of {interval} ms; pass "
                "--segment-interval with the value that the writer used"
            )
        if not segment.holds(schema, interval):
            raise SpecError(
                f"the rows of the segment {segment.name!r} are not rows of a {in_words(family)} "
                "store, so --shape, --time-ordered or --segment-interval differs from the value "
                "that the writer used"
            )
    return spec


def _segments(view: Overview, shape: str, interval_ms: int | None) -> tuple[SegmentOverview, ...]:
    """Return the segments that were read.

    If the segments share a database, return the first segment in each namespace.
    """
    if view.segments or shape not in _IN_SEGMENTS:
        return view.segments or ()
    assert interval_ms is not None
    found = []
    for space, key in view.first.items():
        if space != OFFSETS:
            start = int.from_bytes(key[:ID_BYTES], "big", signed=True) * interval_ms
            last = view.last.get(space, b"")[ID_BYTES:]
            found.append(SegmentOverview(start, 1, space, key[ID_BYTES:], last))
    return tuple(found)


def _with_rows(described: Described, view: Overview) -> Described:
    """Set ``numbered`` and ``unindexed`` of a description from the rows of the store.

    Raises
    ------
    SpecError
        The store has an index, and the options include --without-index.
    """
    spec = described.spec
    segments = [one for one in _segments(view, spec.shape, spec.segment_interval_ms) if one.first]
    if not segments:
        return described
    split = rows_of(spec.shape, time_ordered=spec.time_ordered).schema.split
    numbered = spec.shape == "window" and any(split(one.first or b"")[2] > 0 for one in segments)
    has_index = any((one.last or b"").startswith(_INDEX) for one in segments)
    if spec.time_ordered and has_index and not spec.indexed:
        raise SpecError(f"the store {view.name!r} has an index by key; leave --without-index out")
    return replace(
        described,
        numbered=numbered and not spec.retain_duplicates,
        unindexed=spec.indexed and not has_index,
    )


def _fits(view: Overview, interval_ms: int | None) -> bool:
    """Return True if the first row of a versioned store lies in the segment of the row's end time.

    If the row lies in another segment, the shape or the segment interval is wrong.
    """
    assert interval_ms is not None
    for one in formats.of_shape("versioned"):
        key, row = view.first.get(one.namespace), view.first_rows.get(one.namespace)
        if key is None or row is None or key.startswith(LATEST_PREFIX):
            continue
        try:
            end = segment_rows.next_timestamp(row)
        except FormatError:  # the row is damaged; a read of the row reports the damage
            continue
        if segment_id(end, interval_ms) != int.from_bytes(key[:8], "big", signed=True):
            return False
    return True

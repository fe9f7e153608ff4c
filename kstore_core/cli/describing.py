"""What a store is: as its directory says, else as the options do; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kstore_core import formats, stores
from kstore_core.cli.looking import Sight, seen_families, seen_format
from kstore_core.clock import segment_id
from kstore_core.codec import segment_rows
from kstore_core.errors import FormatError, SpecError
from kstore_core.formats import ValueFormat, named
from kstore_core.keys import rows_of
from kstore_core.spec import StoreSpec
from kstore_core.versioned import LATEST_PREFIX

__all__ = ["Described", "describe", "worded"]

_ORDERED = "time_ordered_"
_INTERVAL = "segment_interval_ms"
_TAKES = {
    "key_value": (),
    "versioned": ("history_retention_ms", _INTERVAL),
    "window": ("retention_ms", "window_size_ms", _INTERVAL),
    "session": ("retention_ms", _INTERVAL),
}
"""What a store has of times; the interval has a default."""
_FIXED = (_INTERVAL, "window_size_ms")
_MAKE: dict[str, Callable[..., StoreSpec]] = {
    "key_value": stores.key_value,
    "versioned": stores.versioned_key_value,
    "window": stores.window,
    "session": stores.session,
}


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
    older : tuple of str
        The older formats that rows were seen in.
    """

    spec: StoreSpec
    key_serde: str
    value_serde: str
    known_from: str
    older: tuple[str, ...]


def describe(
    sight: Sight,
    *,
    shape: str | None = None,
    value_format: str | None = None,
    time_ordered: bool = False,
    key_serde: str | None = None,
    value_serde: str | None = None,
    **times: int | None,
) -> Described:
    """What a store is: its stored spec, else what its namespaces tell, else the options given.

    Parameters
    ----------
    **times
        Retention, window size and segment interval, by their names in a spec.

    Raises
    ------
    SpecError
        It cannot be told, and the options do not say; or they contradict what is known.
    """
    given: dict[str, Any] = {name: ms for name, ms in times.items() if ms is not None}
    if shape is None and value_format is not None:
        raise SpecError("--format says nothing without --shape")
    family = _family(sight, shape, time_ordered)
    known = seen_format(sight, family)
    chosen = _format(sight, known, value_format, family)
    for name in given:
        if name not in _TAKES[family.removeprefix(_ORDERED)]:
            raise SpecError(
                f"the store {sight.name!r} is a {worded(family)} store, so {_option(name)} says "
                "nothing"
            )
    stored = sight.record.spec
    if stored is None:
        spec = _spec(sight, family, chosen, given)
        source = "options" if known is None else "namespaces"
        key_serde, value_serde = key_serde or "bytes", value_serde or "bytes"
    else:
        for name in _FIXED:
            if given.get(name) not in (None, getattr(stored, name)):
                raise SpecError(
                    f"the store {sight.name!r} has {name}={getattr(stored, name)}, by its stored "
                    f"spec; leave {_option(name)} out"
                )
        of_bytes = replace(stored, key="bytes", value="bytes", format=chosen)
        spec, source = replace(of_bytes.spec(), **given), "spec"
        key_serde, value_serde = key_serde or stored.key, value_serde or stored.value
    return Described(spec, key_serde, value_serde, source, tuple(sight.older_rows(chosen)))


def worded(family: str) -> str:
    """A shape, or the name of an option, in words."""
    return family.replace(_ORDERED, "time-ordered ").replace("_", "-")


def _option(name: str) -> str:
    return f"--{worded(name.removesuffix('_ms'))}"


def _family(sight: Sight, shape: str | None, time_ordered: bool) -> str:
    able = seen_families(sight)
    asked = [
        family
        for family in able
        if (shape is None or family.endswith(shape.replace("-", "_")))
        and (family.startswith(_ORDERED) or not time_ordered)
    ]
    if not time_ordered:
        asked = [family for family in asked if not family.startswith(_ORDERED)] or asked
    if not asked:
        source = "namespaces" if sight.record.spec is None else "stored spec"
        raise SpecError(
            f"the store {sight.name!r} is a {worded(able[0])} store, by its {source}; leave "
            "--shape, --format and --time-ordered out"
        )
    if len(asked) == 1:
        return asked[0]
    choices = "--shape key-value, or --shape versioned with the --history-retention"
    if sight.segments is not None:
        choices = "--shape window with the --retention and the --window-size, or --shape session "
        choices += "with the --retention"
    raise SpecError(
        f"the store {sight.name!r} keeps no spec, and its namespaces ({', '.join(sight.namespaces)}"
        f") are those of a plain {worded(asked[0])} store and of a {worded(asked[1])} one: add "
        f"{choices} that it was written with, such as 60s"
    )


def _format(sight: Sight, known: ValueFormat | None, asked: str | None, family: str) -> ValueFormat:
    if known is None or asked is not None:
        wanted = named(asked or "plain", family)
    else:
        wanted = known
    if known is not None and wanted != known:
        raise SpecError(
            f"the store {sight.name!r} is {known.name}, by its "
            f"{'namespaces' if sight.record.spec is None else 'stored spec'}; leave --shape and "
            "--format out"
        )
    return wanted


def _spec(
    sight: Sight, family: str, value_format: ValueFormat, times: Mapping[str, Any]
) -> StoreSpec:
    """The spec that the options give, with keys and values of bytes."""
    shape, ordered = family.removeprefix(_ORDERED), family.startswith(_ORDERED)
    missing = [_option(name) for name in _TAKES[shape] if name not in {*times, _INTERVAL}]
    if missing:
        raise SpecError(
            f"the {worded(family)} store {sight.name!r} keeps no spec: add "
            f"{' and '.join(missing)} as it was written with, such as 60s or 30d, and "
            "--segment-interval if that was not Kafka's default"
        )
    # A read finds every row without an index, and none where it looks for one that is not there.
    order = {"time_ordered": True, "indexed": False} if ordered else {}
    spec = replace(_MAKE[shape](sight.name, **times, **order), format=value_format)
    interval = spec.segment_interval_ms
    if shape == "versioned" and not _fits(sight, interval):
        raise SpecError(
            f"the rows of {sight.name!r} are not those of a versioned store with segments of "
            f"{interval} ms: --shape or --segment-interval is not what it was written with"
        )
    for segment in sight.segments or ():
        assert interval is not None
        schema = rows_of(shape, time_ordered=ordered).schema
        if not segment.lies_at(interval, sight.name):
            raise SpecError(
                f"the segment {segment.name!r} does not begin at a multiple of {interval} ms: add "
                "the --segment-interval that the store was written with"
            )
        if not segment.holds(schema, interval):
            raise SpecError(
                f"the rows of the segment {segment.name!r} are not those of a {worded(family)} "
                "store: --shape, --time-ordered or --segment-interval is not what it was written "
                "with"
            )
    return spec


def _fits(sight: Sight, interval_ms: int | None) -> bool:
    """Whether the first row of versions lies in the segment of the time at which it ends."""
    assert interval_ms is not None
    for one in formats.of_shape("versioned"):
        key, row = sight.first.get(one.namespace), sight.first_rows.get(one.namespace)
        if key is None or row is None or key.startswith(LATEST_PREFIX):
            continue
        try:
            end = segment_rows.next_timestamp(row)
        except FormatError:  # damaged: whoever reads the row is told of it
            continue
        if segment_id(end, interval_ms) != int.from_bytes(key[:8], "big", signed=True):
            return False
    return True

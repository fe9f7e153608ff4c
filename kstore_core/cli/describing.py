"""What a store is: as its directory says, else as the options do; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kstore_core import stores
from kstore_core.cli.looking import Sight, seen_format, seen_shapes
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat, named
from kstore_core.spec import StoreSpec

__all__ = ["Described", "describe", "worded"]

_NEEDS = {
    "key_value": (),
    "versioned": ("history_retention_ms",),
    "window": ("retention_ms", "window_size_ms"),
    "session": ("retention_ms",),
}
_INTERVAL = "segment_interval_ms"
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
    chosen_shape = _shape(sight, shape, value_format)
    known = seen_format(sight)
    value_format = value_format or (None if known else "plain")
    chosen = _format(sight, known, value_format, chosen_shape)
    for name in given:
        if name not in (*_NEEDS[chosen_shape], _INTERVAL) or chosen_shape == "key_value":
            raise SpecError(
                f"the store {sight.name!r} is a {worded(chosen_shape)} store, so {_option(name)} "
                "says nothing"
            )
    stored = sight.record.spec
    if stored is None:
        spec = _spec(sight, chosen_shape, chosen, given)
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


def worded(shape: str) -> str:
    """A shape as it is written on the command line."""
    return shape.replace("_", "-")


def _option(name: str) -> str:
    return f"--{worded(name.removesuffix('_ms'))}"


def _shape(sight: Sight, asked: str | None, value_format: str | None) -> str:
    able = seen_shapes(sight)
    if asked is None and value_format is not None:
        raise SpecError("--format says nothing without --shape")
    if asked is not None:
        shape = asked.replace("-", "_")
        if shape not in able:
            source = "namespaces" if sight.record.spec is None else "stored spec"
            raise SpecError(
                f"the store {sight.name!r} is a {' or '.join(map(worded, able))} store, by its "
                f"{source}; leave --shape and --format out"
            )
        return shape
    if len(able) == 1 or seen_format(sight) is not None:
        return able[0]
    choices = "--shape key-value, or --shape versioned with the --history-retention"
    if sight.segments is not None:
        choices = "--shape window with the --retention and the --window-size, or --shape session "
        choices += "with the --retention"
    raise SpecError(
        f"the store {sight.name!r} keeps no spec, and its namespaces ({', '.join(sight.namespaces)}"
        f") are those of a plain {worded(able[0])} store and of a {worded(able[1])} one: add "
        f"{choices} that it was written with, such as 60s"
    )


def _format(sight: Sight, known: ValueFormat | None, asked: str | None, shape: str) -> ValueFormat:
    wanted = known if asked is None else named(asked, shape)
    if known is not None and wanted != known:
        raise SpecError(
            f"the store {sight.name!r} is {known.name}, by its "
            f"{'namespaces' if sight.record.spec is None else 'stored spec'}; leave --shape and "
            "--format out"
        )
    assert wanted is not None
    return wanted


def _spec(
    sight: Sight, shape: str, value_format: ValueFormat, times: Mapping[str, Any]
) -> StoreSpec:
    """The spec that the options give, with keys and values of bytes."""
    missing = [_option(name) for name in _NEEDS[shape] if name not in times]
    if missing:
        raise SpecError(
            f"the {worded(shape)} store {sight.name!r} keeps no spec: add "
            f"{' and '.join(missing)} as it was written with, such as 60s or 30d, and "
            "--segment-interval if that was not Kafka's default"
        )
    spec = replace(_MAKE[shape](sight.name, **times), format=value_format)
    interval = spec.segment_interval_ms
    for segment in sight.segments or ():
        assert interval is not None
        if not segment.lies_at(interval, sight.name):
            raise SpecError(
                f"the segment {segment.name!r} does not begin at a multiple of {interval} ms: add "
                "the --segment-interval that the store was written with"
            )
    return spec

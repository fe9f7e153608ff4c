"""Value formats: the parts of a stored value, and the namespace of its rows.

A format is a constant. Its namespace is the column family in which Kafka Streams stores the same
bytes; docs/formats.md has the layouts. A format names the older formats that a store may be
upgraded from, and the conversion of their rows; see docs/upgrade.md. A new format also needs its
bytes in :mod:`kstore_core.codec.values` and its class in :mod:`kstore_core.typed.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kstore_core.checks import find_by_name
from kstore_core.codec.conversions.upgrades import (
    Prefix,
    ordered_plain_to_session_headers,
    ordered_timestamped_to_headers,
    plain_to_headers,
    plain_to_session_headers,
    plain_to_timestamped,
    timestamped_to_headers,
    versioned_to_headers,
)
from kstore_core.errors import SpecError

__all__ = [
    "FORMATS",
    "ORDERED_SESSION_HEADERS",
    "ORDERED_TIMESTAMPED",
    "ORDERED_TIMESTAMPED_HEADERS",
    "PLAIN",
    "SESSION_HEADERS",
    "TIMESTAMPED",
    "TIMESTAMPED_HEADERS",
    "VERSIONED",
    "VERSIONED_HEADERS",
    "Convert",
    "ValueFormat",
    "by_name",
    "named",
    "of_shape",
]


Convert = Callable[[bytes, bytes], bytes]
"""A conversion: from the key and the value of a row of an older format to the value in a newer one.
It raises FormatError for a row that it cannot convert."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The parts of a stored value.

    Attributes
    ----------
    name : str
        Part of the stored spec; a format is pickled by its name.
    namespace : str
        The namespace of rows of this format.
    timestamped, headers : bool
        True if a timestamp, or headers, are stored with the value.
    versioned : bool
        True if a key has a history.
    shapes : tuple of str
        The shapes of the stores that use this format. ``"time_ordered_window"`` and
        ``"time_ordered_session"`` are separate shapes here.
    upgrades : mapping of str to Convert
        The older formats that this one can upgrade, oldest first, with the conversion of their
        rows.
    """

    name: str
    namespace: str
    timestamped: bool = False
    headers: bool = False
    versioned: bool = False
    shapes: tuple[str, ...] = ("key_value", "window")
    upgrades: Mapping[str, Convert] = field(default_factory=dict, repr=False, compare=False)

    @property
    def upgrades_from(self) -> tuple[str, ...]:
        """The names of the older formats that a store can be upgraded from."""
        return tuple(self.upgrades)

    def conversion(self, older: str, segment_bytes: int = 0) -> Convert:
        """Return the function that converts rows of an older format to this format.

        Parameters
        ----------
        older : str
            The name of the older format.
        segment_bytes : int
            The number of bytes of a segment's id before the key of each row.
        """
        convert = self.upgrades[older]
        return convert.behind(segment_bytes) if isinstance(convert, Prefix) else convert

    def __reduce__(self) -> tuple[Callable[[str], ValueFormat], tuple[str]]:
        return (by_name, (self.name,))


PLAIN = ValueFormat(
    "plain",
    "default",
    shapes=("key_value", "window", "session", "time_ordered_window", "time_ordered_session"),
)
TIMESTAMPED = ValueFormat(
    "timestamped",
    "keyValueWithTimestamp",
    timestamped=True,
    upgrades={"plain": plain_to_timestamped},
)
TIMESTAMPED_HEADERS = ValueFormat(
    "timestamped_headers",
    "keyValueWithTimestampAndHeaders",
    timestamped=True,
    headers=True,
    upgrades={"plain": plain_to_headers, "timestamped": timestamped_to_headers},
)
VERSIONED = ValueFormat(
    "versioned", "default", timestamped=True, versioned=True, shapes=("versioned",)
)
VERSIONED_HEADERS = ValueFormat(
    "versioned_headers",
    "versionedKeyValueWithHeaders",
    timestamped=True,
    headers=True,
    versioned=True,
    shapes=("versioned",),
    upgrades={"versioned": versioned_to_headers},
)
SESSION_HEADERS = ValueFormat(
    "session_headers",
    "sessionKeyValueWithHeaders",
    headers=True,
    shapes=("session",),
    upgrades={"plain": plain_to_session_headers},
)
# Kafka stores the timestamped rows of time-ordered windows in the namespace of plain ones. The two
# cannot be distinguished, so there is no upgrade from plain ones.
ORDERED_TIMESTAMPED = ValueFormat(
    "ordered_timestamped", "default", timestamped=True, shapes=("time_ordered_window",)
)
ORDERED_TIMESTAMPED_HEADERS = ValueFormat(
    "ordered_timestamped_headers",
    "windowKeyValueWithHeaders",
    timestamped=True,
    headers=True,
    shapes=("time_ordered_window",),
    upgrades={"ordered_timestamped": ordered_timestamped_to_headers},
)
ORDERED_SESSION_HEADERS = ValueFormat(
    "ordered_session_headers",
    "sessionKeyValueWithHeaders",
    headers=True,
    shapes=("time_ordered_session",),
    upgrades={"plain": ordered_plain_to_session_headers},
)

FORMATS: dict[str, ValueFormat] = {
    value_format.name: value_format
    for value_format in (
        PLAIN,
        TIMESTAMPED,
        TIMESTAMPED_HEADERS,
        VERSIONED,
        VERSIONED_HEADERS,
        SESSION_HEADERS,
        ORDERED_TIMESTAMPED,
        ORDERED_TIMESTAMPED_HEADERS,
        ORDERED_SESSION_HEADERS,
    )
}


def by_name(name: str) -> ValueFormat:
    """Return the format of this name.

    Raises
    ------
    SpecError
        No format has this name.
    """
    return find_by_name("value format", name, FORMATS)


def of_shape(shape: str) -> list[ValueFormat]:
    """Return the possible formats of a store of this shape, oldest first."""
    return [value_format for value_format in FORMATS.values() if shape in value_format.shapes]


def fitting(families: Iterable[str], namespaces: Iterable[str]) -> list[str]:
    """Return the families of stores that may have these namespaces; unknown namespaces are
    ignored."""
    found = {f.namespace for f in FORMATS.values()}.intersection(namespaces)
    return [family for family in families if found <= {f.namespace for f in of_shape(family)}]


def named(name: str, shape: str) -> ValueFormat:
    """Return the format of this full or short name, for a store of this shape.

    Parameters
    ----------
    name : str
        The full name, or the short one: ``"plain"``, ``"timestamped"`` or ``"headers"``.
    shape : str
        ``"key_value"``, ``"versioned"``, ``"window"``, ``"session"``, ``"time_ordered_window"`` or
        ``"time_ordered_session"``.

    Raises
    ------
    SpecError
        No store of this shape has such a format.
    """
    candidates = of_shape(shape)
    for value_format in candidates:
        if name in (value_format.name, _short_name(value_format)):
            return value_format
    raise SpecError(
        f"there is no {shape.replace('_', '-')} store of the format {name}; there are: "
        f"{', '.join(map(_short_name, candidates))}"
    )


def _short_name(value_format: ValueFormat) -> str:
    if value_format.headers:
        return "headers"
    return "timestamped" if value_format.timestamped and not value_format.versioned else "plain"

"""Value formats, which define the parts of a stored value and the namespace of its rows.

Each format is a constant; docs/formats.md describes the layouts. The namespace of a format is the
column family in which Kafka Streams stores rows of this format. A format lists the older formats
from which a store can be upgraded, with the conversions of their rows; see docs/upgrade.md.
docs/extending/format.md lists what a new format needs.
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
"""A function that takes the key and the value of a row in an older format, and returns the value in
a newer format. It raises FormatError for a row that it cannot convert."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """A format of stored values.

    Attributes
    ----------
    name : str
        The name of the format. Stored specs and pickled formats contain it.
    namespace : str
        The namespace of the rows that have this format.
    timestamped, headers : bool
        ``timestamped`` is True if a stored value has a timestamp. ``headers`` is True if a stored
        value has headers.
    versioned : bool
        True if the store retains a history of each key.
    shapes : tuple of str
        The shapes of the stores that can have this format. Here, ``"time_ordered_window"`` and
        ``"time_ordered_session"`` are separate shapes.
    upgrades : mapping of str to Convert
        The conversions of rows from older formats to this format, by the names of the older
        formats, oldest first.
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
        """The names of the older formats from which a store can be upgraded to this format."""
        return tuple(self.upgrades)

    def conversion(self, older: str, segment_bytes: int = 0) -> Convert:
        """Return the function that converts rows of an older format to this format.

        Parameters
        ----------
        older : str
            The name of the older format.
        segment_bytes : int
            The size in bytes of the segment id in front of each key. 0 if there is no segment id.
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
# Kafka Streams stores timestamped rows of time-ordered windows in the namespace of plain rows. The
# two kinds of rows cannot be distinguished, so there is no upgrade from plain to timestamped rows.
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
    """Return the format with this name. Raise SpecError if no format has this name."""
    return find_by_name("value format", name, FORMATS)


def of_shape(shape: str) -> list[ValueFormat]:
    """Return the formats that a store with this shape can have, oldest first."""
    return [value_format for value_format in FORMATS.values() if shape in value_format.shapes]


def fitting(families: Iterable[str], namespaces: Iterable[str]) -> list[str]:
    """Return the shapes in ``families`` whose stores can have rows in all of these namespaces.

    Namespaces that no format uses are ignored.
    """
    found = {f.namespace for f in FORMATS.values()}.intersection(namespaces)
    return [family for family in families if found <= {f.namespace for f in of_shape(family)}]


def named(name: str, shape: str) -> ValueFormat:
    """Return the format with this full or short name, for a store with this shape.

    Parameters
    ----------
    name : str
        The full name, or the short name: ``"plain"``, ``"timestamped"`` or ``"headers"``.
    shape : str
        The shape: ``"key_value"``, ``"versioned"``, ``"window"``, ``"session"``,
        ``"time_ordered_window"`` or ``"time_ordered_session"``.

    Raises
    ------
    SpecError
        If no store with this shape can have the format.
    """
    candidates = of_shape(shape)
    for value_format in candidates:
        if name in (value_format.name, _short_name(value_format)):
            return value_format
    raise SpecError(
        f"a {shape.replace('_', '-')} store cannot have the format {name}; its format can be: "
        f"{', '.join(map(_short_name, candidates))}"
    )


def _short_name(value_format: ValueFormat) -> str:
    if value_format.headers:
        return "headers"
    return "timestamped" if value_format.timestamped and not value_format.versioned else "plain"

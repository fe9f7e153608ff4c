"""Value formats: what a stored value is made of, and the namespace that holds it.

A format is a constant. Its namespace is the column family in which Kafka Streams keeps the same
bytes; the layouts stand in docs/formats.md. It names the older formats that a store may be upgraded
from, and what becomes of their rows: docs/upgrade.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
"""From the key and value of a row of an older format to its value in a newer one; a row that it
cannot convert is a FormatError."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The parts of a stored value.

    Attributes
    ----------
    name : str
        Kept in the stored spec; a format is pickled by it.
    namespace : str
        Where rows of this format are kept.
    timestamped, headers : bool
        Whether a time and headers are stored with the value.
    versioned : bool
        Whether a key has a history.
    shapes : tuple of str
        The shapes of the stores that keep their rows in it: ``"time_ordered_window"`` and
        ``"time_ordered_session"`` are shapes of their own here.
    upgrades : mapping of str to Convert
        Older formats that a store of this one may be opened over, oldest first, and how their rows
        are converted.
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
        """The names of the older formats."""
        return tuple(self.upgrades)

    def conversion(self, older: str, segment_bytes: int = 0) -> Convert:
        """The conversion of rows of an older format to this one.

        Parameters
        ----------
        older : str
            Its name.
        segment_bytes : int
            How many bytes of a segment's id stand before the key of each row.
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
# Kafka keeps the timestamped rows of time-ordered windows in the namespace of plain ones, so that
# neither can be told from the other, and no upgrade leads from plain ones anywhere.
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
    """The format of this name.

    Raises
    ------
    SpecError
        There is none.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise SpecError(f"no value format {name!r}; there are: {', '.join(FORMATS)}") from None


def of_shape(shape: str) -> list[ValueFormat]:
    """The formats that a store of this shape may have, oldest first."""
    return [value_format for value_format in FORMATS.values() if shape in value_format.shapes]


def named(name: str, shape: str) -> ValueFormat:
    """The format of a store of this shape by its own name or by a short one.

    Parameters
    ----------
    name : str
        A format's name, or what it keeps beside the value: ``"plain"`` (nothing),
        ``"timestamped"``, ``"headers"``.
    shape : str
        ``"key_value"``, ``"versioned"``, ``"window"`` or ``"session"``, the latter two also
        with ``"time_ordered_"`` before them.

    Raises
    ------
    SpecError
        No store of that shape has such a format.
    """
    kin = of_shape(shape)
    for value_format in kin:
        if name in (value_format.name, _short_name(value_format)):
            return value_format
    raise SpecError(
        f"there is no {shape.replace('_', '-')} store of the format {name}; there are: "
        f"{', '.join(map(_short_name, kin))}"
    )


def _short_name(value_format: ValueFormat) -> str:
    if value_format.headers:
        return "headers"
    return "timestamped" if value_format.timestamped and not value_format.versioned else "plain"

"""Value formats: what a stored value is made of, and the namespace that holds it.

A format is a constant. Its namespace is the column family in which Kafka Streams keeps the same
bytes; the layouts stand in docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kstore_core.errors import SpecError

__all__ = [
    "FORMATS",
    "PLAIN",
    "TIMESTAMPED",
    "TIMESTAMPED_HEADERS",
    "VERSIONED",
    "VERSIONED_HEADERS",
    "ValueFormat",
    "by_name",
]


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """What a value is made of.

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
    upgrades_from : tuple of str
        Older formats that a store of this one may be opened over.
    """

    name: str
    namespace: str
    timestamped: bool = False
    headers: bool = False
    versioned: bool = False
    upgrades_from: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[[str], ValueFormat], tuple[str]]:
        return (by_name, (self.name,))


PLAIN = ValueFormat("plain", "default")
TIMESTAMPED = ValueFormat(
    "timestamped", "keyValueWithTimestamp", timestamped=True, upgrades_from=("plain",)
)
TIMESTAMPED_HEADERS = ValueFormat(
    "timestamped_headers",
    "keyValueWithTimestampAndHeaders",
    timestamped=True,
    headers=True,
    upgrades_from=("plain", "timestamped"),
)
VERSIONED = ValueFormat("versioned", "default", timestamped=True, versioned=True)
VERSIONED_HEADERS = ValueFormat(
    "versioned_headers",
    "versionedKeyValueWithHeaders",
    timestamped=True,
    headers=True,
    versioned=True,
    upgrades_from=("versioned",),
)

FORMATS: dict[str, ValueFormat] = {
    value_format.name: value_format
    for value_format in (PLAIN, TIMESTAMPED, TIMESTAMPED_HEADERS, VERSIONED, VERSIONED_HEADERS)
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

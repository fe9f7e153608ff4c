"""The conversion of rows to another format of the same shape, newer or older."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kstore_core.codec.conversions.downgrades import Strip
from kstore_core.codec.conversions.upgrades import Prefix, convert_rows
from kstore_core.errors import SpecError
from kstore_core.formats import ValueFormat, of_shape

__all__ = ["Converter", "Lost"]

_TIME_BYTES = 8
_UNKNOWN = b"\xff" * _TIME_BYTES


class Lost(NamedTuple):
    """Counts of headers and timestamps that a conversion drops.

    Attributes
    ----------
    headers : int
    headed : int
        The number of values with headers.
    timestamps : int
        Unknown timestamps, which are -1, do not count.
    """

    headers: int = 0
    headed: int = 0
    timestamps: int = 0


class Converter:
    """Converts rows, and counts dropped headers and timestamps.

    Parameters
    ----------
    source, target : ValueFormat
    family : str
        The family of the store.

    Attributes
    ----------
    drops : bool
        True if the target lacks headers or timestamps that the source has.

    Raises
    ------
    SpecError
        A format is not one of that family.
    """

    def __init__(self, source: ValueFormat, target: ValueFormat, family: str) -> None:
        for value_format in (source, target):
            if value_format not in of_shape(family):
                raise SpecError(
                    f"a {family.replace('_', '-')} store has no format {value_format.name!r}; "
                    f"there are: {', '.join(f.name for f in of_shape(family))}"
                )
        self._strip: Strip | None = None
        self._convert: Callable[[bytes, bytes], bytes] | None = None
        index_at = 0 if family.startswith("time_ordered_") else -1
        less_headers = source.headers and not target.headers
        less_times = source.timestamped and not target.timestamped
        if less_headers or less_times:
            self._strip = Strip(
                headers=less_headers,
                timestamp=less_times,
                least_bytes=_TIME_BYTES if target.timestamped and not target.versioned else 0,
                versioned=source.versioned,
                index_at=index_at,
            )
        elif source.name in target.upgrades:
            self._convert = target.conversion(source.name)
        elif source != target:  # formats of one namespace have no upgrade in place
            prefix = b"\0" * target.headers + _UNKNOWN
            self._convert = Prefix(prefix, 0, index_at)

    @property
    def drops(self) -> bool:
        return self._strip is not None

    @property
    def lost(self) -> Lost:
        """The numbers of headers and timestamps that the conversion has removed so far."""
        strip = self._strip
        if strip is None:
            return Lost()
        return Lost(strip.headers, strip.headed, strip.timestamps)

    def rows(self, keys: list[bytes], values: list[bytes]) -> list[bytes]:
        """Return the values of rows in the target's format.

        Raises
        ------
        FormatError
            A value does not have the source's format; the error names its key.
        """
        if self._strip is not None:
            return self._strip.rows(keys, values)
        if self._convert is not None:
            return convert_rows(self._convert, keys, values)
        return values

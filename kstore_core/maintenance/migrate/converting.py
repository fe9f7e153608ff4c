"""The conversion of rows to a newer or older format of the same shape."""

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
    """The numbers of headers and timestamps that a conversion drops.

    Attributes
    ----------
    headers : int
        The number of dropped headers.
    headed : int
        The number of values that lose headers.
    timestamps : int
        The number of dropped timestamps. Unknown timestamps, which are -1, do not count.
    """

    headers: int = 0
    headed: int = 0
    timestamps: int = 0


class Converter:
    """A converter of rows, which counts the headers and timestamps that it drops.

    Parameters
    ----------
    source, target : ValueFormat
        The current format and the new format of the rows.
    family : str
        The family of the store: its shape, with the prefix ``time_ordered_`` if the keys of the
        rows begin with the time.

    Attributes
    ----------
    drops : bool
        True if ``source`` stores headers or timestamps that ``target`` does not store.

    Raises
    ------
    SpecError
        ``source`` or ``target`` is not a format of this family.
    """

    def __init__(self, source: ValueFormat, target: ValueFormat, family: str) -> None:
        for value_format in (source, target):
            if value_format not in of_shape(family):
                raise SpecError(
                    f"a {family.replace('_', '-')} store cannot have the format "
                    f"{value_format.name!r}; its formats are: "
                    f"{', '.join(f.name for f in of_shape(family))}"
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
        elif source != target:  # two formats of one namespace have no upgrade in place
            prefix = b"\0" * target.headers + _UNKNOWN
            self._convert = Prefix(prefix, 0, index_at)

    @property
    def drops(self) -> bool:
        return self._strip is not None

    @property
    def lost(self) -> Lost:
        """The numbers of headers and timestamps that the converter has dropped so far."""
        strip = self._strip
        if strip is None:
            return Lost()
        return Lost(strip.headers, strip.headed, strip.timestamps)

    def rows(self, keys: list[bytes], values: list[bytes]) -> list[bytes]:
        """Convert the values of rows to the target format.

        Raises
        ------
        FormatError
            A value does not have the source format. The message names the key of the value.
        """
        if self._strip is not None:
            return self._strip.rows(keys, values)
        if self._convert is not None:
            return convert_rows(self._convert, keys, values)
        return values

"""The ranges of keys and times that the options of ``kstore dump`` describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kstore_core.cli.describing import in_words
from kstore_core.cli.parameters.values import TIME, check_order, key_bytes
from kstore_core.cli.reading import Reader
from kstore_core.errors import SpecError

__all__ = ["Range"]


@dataclass(frozen=True, slots=True)
class Range:
    """A range of rows, inclusive at both ends. An end that is None has no limit.

    Attributes
    ----------
    lo, hi : str or None
        The first and the last time of a window or session store; the first and the last key of any
        other store.
    key, key_from, key_to : str or None
        A single key, or the first and the last key of a range.
    is_hex : bool
        True if the keys are typed as stored bytes, in hex.
    as_of : int or None
        For a versioned store, the time at which the versions were valid, in ms since the epoch;
        None for the latest versions.
    reverse : bool
        True to begin with the last row.
    """

    lo: str | None
    hi: str | None
    key: str | None
    key_from: str | None
    key_to: str | None
    is_hex: bool
    as_of: int | None
    reverse: bool

    def scan(self, reader: Reader) -> Any:
        """Return a scan of the rows in this range.

        Raises
        ------
        click.UsageError
            A text is not a key or not a time, or the options contradict each other.
        SpecError
            An option does not apply to a store of this shape.
        """
        shape = reader.spec.shape
        if self.as_of is not None and shape != "versioned":
            raise SpecError(
                f"the store {reader.spec.name!r} is a {in_words(shape)} store without a history, "
                "so --as-of does not apply; leave it out"
            )
        if shape in ("window", "session"):
            earliest, latest = _time(self.lo, "--from"), _time(self.hi, "--to")
            check_order(earliest, latest)
            first, last = self._keys(reader, None, None)
            return reader.in_time(first, last, earliest, latest, reverse=self.reverse)
        keys = self._keys(reader, self.lo, self.hi)
        when = () if self.as_of is None else (self.as_of,)
        return reader.store.range(*keys, *when, reverse=self.reverse)

    def _keys(self, reader: Reader, lo: str | None, hi: str | None) -> list[bytes | None]:
        """Return the first and the last key, from the options."""
        pairs = [(self.key, self.key), (self.key_from, self.key_to), (lo, hi)]
        given = [pair for pair in pairs if pair != (None, None)]
        if len(given) > 1:
            raise click.UsageError(
                "several options give the range of keys; pass either --key, or --key-from and "
                "--key-to"
            )
        return [
            None if end is None else key_bytes(end, reader.key, is_hex=self.is_hex)
            for end in (given[0] if given else (None, None))
        ]


def _time(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else TIME.convert(text, None, None)
    except click.BadParameter as error:
        raise click.BadParameter(
            f"{error.message}; for keys of a window or session store, use --key, "
            f"--key-from or --key-to",
            param_hint=option,
        ) from error

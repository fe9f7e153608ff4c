"""Ranges of ``kstore dump``: keys and times, as typed."""

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
    """A range of rows, inclusive at both ends; None leaves an end open.

    Attributes
    ----------
    lo, hi : str or None
        Times of a window or session store, keys of any other.
    key, key_from, key_to : str or None
        One key, or a range of them.
    is_hex : bool
        Whether keys are stored bytes, in hex.
    as_of : int or None
        Of a versioned store: when the versions are valid, ms.
    reverse : bool
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
        """A scan of these rows.

        Raises
        ------
        click.UsageError
            The text is not a key or time, or contradicts itself.
        SpecError
            It says nothing for such a store.
        """
        shape = reader.spec.shape
        if self.as_of is not None and shape != "versioned":
            raise SpecError(
                f"the store {reader.spec.name!r} is a {in_words(shape)} store without a history, "
                "so --as-of does not apply"
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
        """The first and the last key, from the options that give them."""
        pairs = [(self.key, self.key), (self.key_from, self.key_to), (lo, hi)]
        given = [pair for pair in pairs if pair != (None, None)]
        if len(given) > 1:
            raise click.UsageError(
                "the keys are given twice: one of --key, or --key-from and --key-to, is enough"
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
            f"{error.message}; keys of a window or session store are --key, --key-from, --key-to",
            param_hint=option,
        ) from error

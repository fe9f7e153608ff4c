"""Functions that compare joined rows with the file of the rates, without a store or Spark."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from kstore_core.demo.rates import RateFile, published_at

__all__ = ["Check", "JoinedRow", "check_rows", "expected"]


@dataclass(frozen=True, slots=True)
class JoinedRow:
    """A transaction with the rate that the join found for it, and the headers of the rate's record.

    The time is in ms since the epoch. The rate and the headers are None if the currency had no rate
    at this time.
    """

    currency: str
    time: int
    amount: float
    rate: float | None
    headers: list[tuple[str, bytes | None]] | None

    def header(self, name: str) -> str | None:
        """Return the value of the last header with this name as text, or None."""
        for key, value in reversed(self.headers or []):
            if key == name and value is not None:
                return value.decode()
        return None


@dataclass(frozen=True, slots=True)
class Check:
    """The result of the comparison of joined rows with the file.

    Attributes
    ----------
    rows, without_rate : int
        The number of compared rows, and the number of these rows whose currency had no rate.
    differences : list of str
        A text for each row that differs from the file.
    """

    rows: int
    without_rate: int
    differences: list[str]


def expected(file: RateFile, currency: str, time: int) -> tuple[float | None, datetime.date | None]:
    """Return the rate of a currency at ``time``, and the day on which the rate was published.

    The rate and the day are None if the currency has no rate at this time.
    """
    index = bisect_right(file.days, time, key=published_at) - 1
    rate = file.rates[currency][index] if index >= 0 else None
    return (rate, file.days[index]) if rate is not None else (None, None)


def check_rows(file: RateFile, rows: Iterable[JoinedRow]) -> Check:
    """Compare the rate of each row, and the publication day in its headers, with the file."""
    count = without = 0
    differences = []
    for row in rows:
        count += 1
        rate, day = expected(file, row.currency, row.time)
        without += rate is None
        found = (row.rate, row.header("publication-date"), row.header("currency"))
        wanted = (None, None, None) if day is None else (rate, day.isoformat(), row.currency)
        if found != wanted:
            differences.append(f"{row.currency} at {row.time}: {found}, but the file has {wanted}")
    return Check(count, without, differences)

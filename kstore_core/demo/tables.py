"""Functions that return the demo's input as Arrow tables: a changelog and transactions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kstore_core import serdes
from kstore_core.codec import partition
from kstore_core.demo.rates import Quote
from kstore_core.demo.transactions import Transactions

__all__ = ["TOPIC", "changelog_table", "transactions_table"]

TOPIC = "ecb-reference-rates"
"""The name of the changelog's topic."""

_TIME = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def changelog_table(quotes: Iterable[Quote], *, source: str, partitions: int) -> pa.Table:
    """Return the records of the changelog, in the order of publication.

    The table has the columns of Spark's Kafka source. Kafka's partitioner assigns the keys to
    partitions. Each record has the headers ``source``, ``publication-date`` and ``currency``.
    """
    records = list(quotes)
    places = {q.currency: partition(serdes.UTF8.encode(q.currency), partitions) for q in records}
    offsets = [itertools.count() for _ in range(partitions)]
    where = [places[quote.currency] for quote in records]
    headers = [
        [
            {"key": "source", "value": source.encode()},
            {"key": "publication-date", "value": quote.day.isoformat().encode()},
            {"key": "currency", "value": quote.currency.encode()},
        ]
        for quote in records
    ]
    values = [None if q.rate is None else serdes.FLOAT64.encode(q.rate) for q in records]
    return pa.table(
        {
            "key": pa.array([serdes.UTF8.encode(quote.currency) for quote in records], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array([TOPIC] * len(records), pa.string()),
            "partition": pa.array(where, pa.int32()),
            "offset": pa.array([next(offsets[place]) for place in where], pa.int64()),
            "timestamp": _times(np.array([quote.timestamp for quote in records], dtype=np.int64)),
            "headers": pa.array(headers, _HEADERS),
        }
    )


def transactions_table(made: Transactions) -> pa.Table:
    """Return the transactions in their random order, with consecutive numbers in ``id``."""
    return pa.table(
        {
            "id": pa.array(np.arange(len(made), dtype=np.int64)),
            "time": _times(made.time),
            "currency": pa.array(made.currency, pa.string()),
            "amount": pa.array(made.amount),
        }
    )


def _times(milliseconds: np.ndarray) -> pa.Array:
    return pa.array(milliseconds * 1000).cast(_TIME)

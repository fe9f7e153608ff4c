"""The topology of the demo of processors. It prices each order at the rate of the order's time.

Sub-topology 0 stores the exchange rates with their history, and prices each order. It sends an
order without a rate to a topic of dead letters. Sub-topology 1 collects the priced orders of each
customer to sessions.
"""

from __future__ import annotations

from typing import Any

from kstore_core import AggregationWithHeaders, Windowed, serdes, stores
from kstore_core.processing import Context, Processor, Record, Topology

__all__ = ["RATES", "SESSIONS", "orders_topology"]

_DAY_MS = 86_400_000
_YEARS_MS = 40 * 365 * _DAY_MS
_TEXT: dict[str, Any] = {"key": serdes.UTF8}

RATES = stores.versioned_key_value_with_headers(
    "rates", history_retention_ms=_YEARS_MS, key=serdes.UTF8, value=serdes.FLOAT64
)
"""The price of one euro in each currency, with its history."""

SESSIONS = stores.session_with_headers("sessions", _YEARS_MS, key=serdes.UTF8, value=serdes.JSON)
"""The sessions of each customer."""


def keep_rate(context: Context, rate: Record[str, float]) -> None:
    """Store a rate, which is valid from its record's time. None means that the currency ended."""
    context.store("rates").put(rate.key, rate.value)


def price(context: Context, order: Record[str, dict[str, Any]]) -> None:
    """Forward an order with its price in euro cents, keyed by the customer.

    The headers of the rate, which show the source of the rate, are added to the headers of the
    order.
    """
    rate = context.store("rates").get(order.key, as_of=order.timestamp)
    headers = order.headers.copy()
    if rate is None:
        headers.add("problem", f"no rate for {order.key}".encode())
        context.forward(order.replace(headers=headers), to="dead letters")
        return
    for header in rate.headers:
        headers.add(header.key, header.value)
    cents = round(100 * order.value["amount"] / rate.value)
    priced = {"order": order.value["order"], "cents": cents}
    context.forward(
        order.replace(key=order.value["customer"], value=priced, headers=headers), to="priced"
    )


class CollectSessions(Processor):
    """Collect orders of a customer to sessions. Successive orders are at most a gap apart.

    Parameters
    ----------
    gap_ms : int
    """

    def __init__(self, gap_ms: int) -> None:
        self.gap_ms = gap_ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CollectSessions) and other.gap_ms == self.gap_ms

    __hash__ = None  # type: ignore[assignment]

    def process(self, record: Record[str, dict[str, Any]]) -> None:
        """Merge an order with all sessions within the gap, and forward the merged session."""
        sessions, time = self.context.store("sessions"), record.timestamp
        start, end, headers = time, time, record.headers
        value = {"orders": 1, "cents": record.value["cents"]}
        near = list(sessions.find_sessions(record.key, time - self.gap_ms, time + self.gap_ms))
        for session, found in near:
            if session.end > end:  # keep the headers of the latest order
                end, headers = session.end, found.headers
            start = min(start, session.start)
            value = {name: count + found.aggregation[name] for name, count in value.items()}
            sessions.remove(session)
        merged = Windowed(record.key, start, end)
        sessions.put(merged, AggregationWithHeaders.make(value, headers))
        told = {**value, "start": start, "end": end}
        self.context.forward(record.replace(value=told, timestamp=end, headers=headers))


def orders_topology(prefix: str = "", *, gap_ms: int = 30 * _DAY_MS) -> Topology:
    """Return the topology. The names of its topics begin with ``prefix``."""
    json: dict[str, Any] = {**_TEXT, "value": serdes.JSON}
    return (
        Topology()
        .add_source("rates", f"{prefix}rates", **_TEXT, value=serdes.FLOAT64)
        .add_source("orders", f"{prefix}orders", **json)
        .add_processor("keep rate", keep_rate, ["rates"], stores=[RATES])
        .add_processor("price", price, ["orders"], stores=[RATES])
        .add_sink("priced", f"{prefix}priced", ["price"], **json)
        .add_sink("dead letters", f"{prefix}dead-letters", ["price"], **json)
        .add_source("priced again", f"{prefix}priced", **json)
        .add_processor("collect", CollectSessions(gap_ms), ["priced again"], stores=[SESSIONS])
        .add_sink("sessions", f"{prefix}sessions", ["collect"], **json)
    )

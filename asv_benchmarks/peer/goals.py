"""The operations of the comparison, and the ratio that kstore aims at for each operation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BOTH_LEVELS", "GOALS", "GROUPS", "Goal"]

GROUPS = ("kv", "versioned", "window", "session", "inmem", "restore", "codec")
"""The workloads of the comparison, in the order of the table."""

BOTH_LEVELS = ("kv", "versioned", "window", "session")
"""The workloads that are also measured at the default durability, which has a write-ahead log."""


@dataclass(frozen=True)
class Goal:
    """The goal for one operation.

    Attributes
    ----------
    bench, op : str
        The names of the workload and of kstore's operation in the results.
    ratio : float
        The least ratio of kstore's operations per second to those of Kafka Streams.
    what : str
        A description of the operation, for the table.
    beside : str
        The operation of Kafka Streams, if it has another name.
    """

    bench: str
    op: str
    ratio: float
    what: str
    beside: str = ""

    @property
    def peer(self) -> tuple[str, str]:
        """The workload and the operation of Kafka Streams."""
        return self.bench, self.beside or self.op


_KEY_VALUE, _VERSIONED = "kv_headers_typed", "versioned"
_WINDOW, _SESSION, _MEMORY = "window_headers", "session_headers", "inmemory_key_value"
_BATCHES, _AT_ONCE = "restore_batches_of_1000", "restore_at_once"

GOALS = (
    Goal(_KEY_VALUE, "put", 1.4, "key-value: put"),
    Goal(_KEY_VALUE, "get_hit", 1.3, "key-value: get a present key"),
    Goal(_KEY_VALUE, "get_many_64", 1.6, "key-value: get 64 keys in one call", "get_hit"),
    Goal(_KEY_VALUE, "get_miss", 1.3, "key-value: get a missing key"),
    Goal(_KEY_VALUE, "scan_all", 1.3, "key-value: scan"),
    Goal(_KEY_VALUE, "scan_arrow", 3.0, "key-value: scan to an Arrow table", "scan_all"),
    Goal(
        _KEY_VALUE, "scan_arrow_again", 3.0, "key-value: scan to an Arrow table again", "scan_all"
    ),
    Goal(_VERSIONED, "put_in_order", 3.0, "versioned: put in order of time"),
    Goal(_VERSIONED, "put_10pct_out_of_order", 3.0, "versioned: put, 10 % of them late"),
    Goal(_VERSIONED, "get_latest", 1.3, "versioned: get the latest version"),
    Goal(_VERSIONED, "get_as_of", 1.5, "versioned: get as of a time"),
    Goal(
        _VERSIONED,
        "get_many_as_of_1000",
        2.0,
        "versioned: get 1,000 keys as of a time",
        "get_as_of",
    ),
    Goal(_WINDOW, "put", 1.2, "window: put"),
    Goal(_WINDOW, "fetch_one_hit", 1.5, "window: fetch one window"),
    Goal(_WINDOW, "fetch_key_10min_range", 2.0, "window: fetch about 20 windows of a key"),
    Goal(_WINDOW, "all", 1.5, "window: scan"),
    Goal(_SESSION, "put", 1.2, "session: put"),
    Goal(_SESSION, "find_sessions_2min", 2.0, "session: find the sessions of two minutes"),
    Goal(_SESSION, "fetch_session_hit", 1.5, "session: fetch one session"),
    Goal(_MEMORY, "put", 2.0, "in memory: put"),
    Goal(_MEMORY, "get_hit", 2.0, "in memory: get"),
    Goal(_MEMORY, "scan_all", 2.0, "in memory: scan"),
    Goal("restore_headers", _BATCHES, 1.5, "restore with headers, 1,000 records at a time"),
    Goal("restore_headers", _AT_ONCE, 2.5, "restore with headers, at once", _BATCHES),
    Goal("restore_plain", _BATCHES, 1.5, "restore plain values, 1,000 records at a time"),
    Goal("restore_plain", _AT_ONCE, 2.5, "restore plain values, at once", _BATCHES),
    Goal("restore_versioned", _BATCHES, 8.0, "restore versions, 1,000 records at a time"),
    Goal("restore_versioned", _AT_ONCE, 16.0, "restore versions, at once", _BATCHES),
    Goal("codec", "value_timestamp_headers_serialize", 1.0, "encode a value with three headers"),
    Goal("codec", "value_timestamp_headers_deserialize", 1.0, "decode a value with three headers"),
    Goal("codec", "headers_deserialize", 1.0, "decode three headers"),
)

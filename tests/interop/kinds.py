"""The kinds of store that Kafka Streams and kstore both have: one row each.

The options of a kind have the same names on both sides: Kafka's harness takes them at `open`, the
factories of `kstore_core.stores` as arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kstore_core import stores
from kstore_core.spec import StoreSpec

__all__ = ["EDGES", "KINDS", "NAME", "Kind"]

NAME = "s"
"""Of every store here."""

VERSIONED = {"history_retention_ms": 1000, "segment_interval_ms": 100}
WINDOW = {"retention_ms": 200, "window_size_ms": 10, "segment_interval_ms": 50}
SESSION = {"retention_ms": 200, "segment_interval_ms": 50}
DUPLICATES = {"retain_duplicates": True}


@dataclass(frozen=True)
class Kind:
    """A kind of store on both sides.

    ``kafka`` is the harness's kind, and ``factory`` makes the spec. ``form`` is the form of the
    values: plain, timestamped, headers or aggregation. ``options`` are those of both sides.
    """

    name: str
    kafka: str
    factory: Callable[..., StoreSpec]
    shape: str
    form: str
    options: dict[str, Any] = field(default_factory=dict)
    kafka_only: dict[str, Any] = field(default_factory=dict)
    kstore_only: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name.replace(", ", "-").replace(" ", "_")

    @property
    def spec(self) -> StoreSpec:
        """For kstore to open it with."""
        return self.factory(NAME, **self.options, **self.kstore_only)

    @property
    def kafka_options(self) -> dict[str, Any]:
        """For Kafka to open it with."""
        return self.options | self.kafka_only

    @property
    def indexed(self) -> bool:
        """Whether an index by key stands beside rows by time."""
        return self.spec.indexed

    @property
    def duplicates(self) -> bool:
        return bool(self.options.get("retain_duplicates"))


_WINDOWS = (
    ("plain", stores.window),
    ("timestamped", stores.timestamped_window),
    ("headers", stores.timestamped_window_with_headers),
)


def _windows(**options: Any) -> list[Kind]:
    suffix = ", duplicates" if options else ""
    return [
        Kind(f"window, {form}{suffix}", f"window_{form}", make, "window", form, WINDOW | options)
        for form, make in _WINDOWS
    ]


def _time_ordered(kind: Kind, *, indexed: bool) -> Kind:
    """The kind with its rows by time; in Kafka's harness it is one of its own."""
    shape = f"{kind.shape}_ordered"
    return replace(
        kind,
        name=f"{kind.name}, time-ordered" + ("" if indexed else " without index"),
        kafka=kind.kafka.replace(kind.shape, shape),
        kafka_only={"index": indexed},
        kstore_only={"time_ordered": True, "indexed": indexed},
    )


_SESSIONS = [
    Kind("session, plain", "session_plain", stores.session, "session", "plain", SESSION),
    Kind("session, headers", "session_headers", stores.session_with_headers,
         "session", "aggregation", SESSION),
]  # fmt: skip

KINDS = [
    Kind("key-value, plain", "kv_plain", stores.key_value, "key_value", "plain"),
    Kind("key-value, timestamped", "kv_timestamped", stores.timestamped_key_value,
         "key_value", "timestamped"),
    Kind("key-value, headers", "kv_headers", stores.timestamped_key_value_with_headers,
         "key_value", "headers"),
    Kind("versioned", "versioned", stores.versioned_key_value, "versioned", "plain", VERSIONED),
    *_windows(),
    *_windows(**DUPLICATES),
    *_SESSIONS,
    *(_time_ordered(kind, indexed=True) for kind in [*_windows(), *_windows(**DUPLICATES)]),
    # Kafka's headers-aware one always has an index.
    *(_time_ordered(kind, indexed=False) for kind in _windows()[:2]),
    # Kafka's headers-aware session store loses the headers when it is ordered by time.
    *(_time_ordered(_SESSIONS[0], indexed=indexed) for indexed in (True, False)),
]  # fmt: skip

EDGES = [
    (older, newer)
    for newer in KINDS
    for older in KINDS
    if older.shape == newer.shape
    and older.options == newer.options
    and older.kstore_only == newer.kstore_only
    and older.spec.format.name in newer.spec.format.upgrades_from
]
"""The upgrades in place: the kind that a store was, and the one that it is opened as."""

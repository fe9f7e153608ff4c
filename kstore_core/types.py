"""The types of values that stores take and return.

The record classes are extension types of :mod:`kstore_core.codec`; this module is their public one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstore_core.clock import Time, to_millis
from kstore_core.codec import (
    AggregationWithHeaders,
    Header,
    Headers,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    VersionedRecordWithHeaders,
    Windowed,
)

__all__ = [
    "LATEST",
    "NOT_PUT",
    "AggregationWithHeaders",
    "Header",
    "Headers",
    "RecordContext",
    "Time",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedRecord",
    "VersionedRecordWithHeaders",
    "Windowed",
    "to_millis",
]

LATEST = -1
"""The result of a versioned put whose version is the latest."""

NOT_PUT = -(2**63)
"""The result of a versioned put whose record was too late and was not stored."""


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The input record that is being processed: its source, its time and its headers.

    Attributes
    ----------
    topic : str or None
        None if the record is from no topic; such a record does not change the position.
    partition, offset : int
    timestamp : int or None
        Milliseconds since the epoch.
    headers : Headers
    """

    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int | None = None
    headers: Any = field(default_factory=Headers)

"""The types of the values that stores accept and return.

The record classes are compiled in :mod:`kstore_core.codec`. Import them from this module.
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
"""The value that a put to a versioned store returns if the new version is the latest."""

NOT_PUT = -(2**63)
"""The value that a put to a versioned store returns if the record was too late to be stored."""


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The source, the time and the headers of the input record that is being processed.

    Attributes
    ----------
    topic : str or None
        The topic of the record. None if the record does not come from a topic. Such a record does
        not change the input offsets (the position) of a store.
    partition, offset : int
        The partition and the offset of the record in the topic.
    timestamp : int or None
        The time of the record in milliseconds since the epoch.
    headers : Headers
        The headers of the record.
    """

    topic: str | None = None
    partition: int = -1
    offset: int = -1
    timestamp: int | None = None
    headers: Any = field(default_factory=Headers)

"""The conversion of the arguments of ``state.record`` to the context of an input record."""

from __future__ import annotations

from typing import Any

from kstore_core.codec import Headers
from kstore_core.offsets.checks import check_integer, check_partition
from kstore_core.types import RecordContext, Time, to_millis

__all__ = ["context_of"]


def context_of(
    topic: str | None, partition: int, offset: int, timestamp: Time | None, headers: Any
) -> RecordContext:
    """Check the arguments of ``state.record``, and return the context of the record."""
    if topic is not None:
        check_partition(topic, partition)
    else:
        check_integer("a partition number", partition, -1, 2**31)
    check_integer("an offset", offset, -1, 2**63)
    return RecordContext(
        topic,
        int(partition),
        int(offset),
        None if timestamp is None else to_millis(timestamp),
        headers if isinstance(headers, Headers) else Headers(headers),
    )

"""The header in front of the records of a batch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BatchHead"]


class BatchHead(NamedTuple):
    """The head of a record batch.

    Attributes
    ----------
    at, size : int
        The position in the bytes or the file, and the size in bytes.
    base_offset, last_offset : int
        Of the records that it was written with, both inclusive; compaction may have taken them.
    max_timestamp : int
        Milliseconds since the epoch; -1 when unknown.
    compression : str
        One of `kstore_core.codec.log.batch.compression.CODECS`.
    log_append_time : bool
        `max_timestamp` is the timestamp of every record.
    transactional, control : bool
        The batch is part of a transaction, and it only marks the end of one.
    delete_horizon_ms : int or None
        The time from which its tombstones may be removed; None before the first compaction.
    record_count : int
        The number of its records.
    """

    at: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    compression: str
    log_append_time: bool
    transactional: bool
    control: bool
    delete_horizon_ms: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

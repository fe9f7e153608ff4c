"""The class `BatchHead`, with the fields in front of the records of a batch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BatchHead"]


class BatchHead(NamedTuple):
    """The head of a record batch: its position and size, and the fields in front of its records.

    Attributes
    ----------
    at, size : int
        The position of the batch in the input or in the file, and the size of the batch in bytes.
    base_offset, last_offset : int
        The first and the last offset of the batch when it was first written. Compaction may have
        removed the records with these offsets.
    max_timestamp : int
        The greatest timestamp in milliseconds since the epoch, or -1 if it is unknown.
    compression : str
        The compression of the records: "none", "gzip", "snappy", "lz4" or "zstd". It is "number N"
        if kstore does not know the codec with the number N.
    log_append_time : bool
        True if `max_timestamp` is the timestamp of every record.
    transactional, control : bool
        `transactional` is True if the batch belongs to a transaction. `control` is True if the
        batch only shows that a transaction was committed or aborted.
    delete_horizon_ms : int or None
        The time (ms) after which the tombstones of the batch may be removed. None if compaction has
        not set it yet.
    record_count : int
        The number of records in the batch.
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

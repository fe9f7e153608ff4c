"""The record classes of kafka-python: a parser and a builder that nobody here wrote."""

from __future__ import annotations

import warnings

from kstore_core.codec import LogRecord

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources.read_text
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

__all__ = ["MemoryRecordsBuilder", "read_by_kafka_python"]


def read_by_kafka_python(data: bytes) -> list[LogRecord]:
    """All records of batches, each of which passes its checksum."""
    found = []
    for batch in MemoryRecords(data):
        assert batch.validate_crc()
        found += [LogRecord(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch]
    return found

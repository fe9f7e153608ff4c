"""Rows for the tests of the writers, and the options of a writer."""

from __future__ import annotations

import pyarrow as pa

from kstore_core.spark.kafka.write_options import KafkaWriteOptions


def write_options(servers: str, **more: str) -> KafkaWriteOptions:
    return KafkaWriteOptions.of({"kafka.bootstrap.servers": servers, "timeoutMs": "20000", **more})


def table(values: list[int]) -> list[pa.RecordBatch]:
    """Rows as two batches."""
    rows = [{"key": b"k", "value": b"%d" % value} for value in values]
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    return [pa.RecordBatch.from_pylist(part, schema) for part in (rows[:1], rows[1:])]

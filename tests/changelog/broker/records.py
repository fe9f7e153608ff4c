"""Records in a broker's topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from kstore_core.changelog import KafkaChangelog

NOW_MS = int(time.time() * 1000)


def fill(log: KafkaChangelog, records: list[tuple[bytes, bytes | None, int, Any]]) -> None:
    for record in records:
        log.append(*record)
    log.commit()


def two_transactions(servers: str, topic: str) -> Producer:
    """Commit a transaction of one record, abort another one, and return their producer."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(30)
    for value, end in ((b"1", producer.commit_transaction), (b"2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, b"k", 0, timestamp=1)
        producer.flush(10)
        end()
    return producer


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)

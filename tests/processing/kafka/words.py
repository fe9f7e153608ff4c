"""A topology of two sub-topologies, the process that runs it, and what its outputs must be."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from kstore_core import Headers, serdes, stores
from kstore_core.processing import Context, Record, Topology
from tests.support.places import ROOT

TEXT = serdes.UTF8
COUNTS = stores.timestamped_key_value_with_headers("counts", key=TEXT, value=serdes.INT64)
SEEN = stores.key_value("seen", key=TEXT, value=serdes.INT64)


def split(context: Context, line: Record[str, str]) -> None:
    """Forward each word of a line under its own key, and count the lines of the key."""
    seen = context.store("seen")
    seen.put(line.key, (seen.get(line.key) or 0) + 1)
    for word in line.value.split():
        context.forward(line.replace(key=word, value=line.key))


def count(context: Context, word: Record[str, str]) -> None:
    """Forward how often a word came."""
    counts = context.store("counts")
    known = counts.get(word.key)
    number = 1 if known is None else known.value + 1
    counts.put(word.key, number)
    context.forward(word.replace(value=str(number)))


def topology(name: str) -> Topology:
    """Lines are split into words, which are counted; the topics begin with ``name``."""
    texts: dict[str, Any] = {"key": TEXT, "value": TEXT}
    return (
        Topology()
        .add_source("lines", f"{name}-lines", **texts)
        .add_processor("split", split, ["lines"], stores=[SEEN])
        .add_sink("words", f"{name}-words", ["split"], **texts)
        .add_source("words again", f"{name}-words", **texts)
        .add_processor("count", count, ["words again"], stores=[COUNTS])
        .add_sink("counts", f"{name}-counts", ["count"], **texts)
    )


def created(broker: Any, partitions: int = 2) -> str:
    """The name of topics that exist."""
    name = f"app{broker.number}"
    for topic in ("lines", "words", "counts"):
        broker.create(partitions, name=f"{name}-{topic}", cleanup_policy="delete", retention_ms=-1)
    return name


def send(servers: str, name: str, lines: Iterable[tuple[str, str, int]]) -> None:
    """Send lines with a key, a text and a time."""
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for key, text, at in lines:
        producer.produce(
            f"{name}-lines", text, key, timestamp=at, headers=[("trace", str(at).encode())]
        )
    producer.flush(30)


def read(servers: str, topic: str, wanted: int, timeout_s: float = 120) -> list[Any]:
    """The committed records of a topic, at least ``wanted`` of them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    count = len(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    found: list[Any] = []
    until = time.monotonic() + timeout_s
    quiet = 0
    while (len(found) < wanted or quiet < 3) and time.monotonic() < until:
        messages = consumer.consume(1000, 0.2)
        quiet = 0 if messages else quiet + 1
        found += [
            (
                message.key().decode(),
                message.value().decode(),
                message.timestamp()[1],
                list(Headers(message.headers() or ())),
            )
            for message in messages
            if message.error() is None
        ]
    consumer.close()
    return found


def numbers(found: Iterable[Any]) -> dict[str, list[int]]:
    """The counts that were emitted for each word, in their order."""
    by_word: dict[str, list[int]] = defaultdict(list)
    for word, number, *_ in found:
        by_word[word].append(int(number))
    return dict(by_word)


def expected(lines: Iterable[tuple[str, str, int]]) -> dict[str, list[int]]:
    """What `numbers` must be: each count of each word once."""
    totals: dict[str, int] = defaultdict(int)
    for _, text, _ in lines:
        for word in text.split():
            totals[word] += 1
    return {word: list(range(1, total + 1)) for word, total in totals.items()}


def started(servers: str, name: str, state: Path, *more: str) -> subprocess.Popen[str]:
    """A process that runs the topology."""
    module = state.with_name(f"{state.name}_app.py")
    module.write_text(
        "from tests.processing.kafka.words import topology as made\n"
        f"def topology():\n    return made({name!r})\n"
    )
    command = [sys.executable, "-m", "kstore_core.processing", "run", f"{module.stem}:topology"]
    command += ["--bootstrap-servers", servers, "--application-id", name, "--state", str(state)]
    return subprocess.Popen(
        [*command, "--session-timeout", "6", *more],
        cwd=state.parent,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        text=True,
    )

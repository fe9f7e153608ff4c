"""A changelog in a Kafka that is a real one: what it keeps, takes away, refuses and loses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from kstore_core.changelog import FileChangelog, KafkaChangelog, LogConfig
from kstore_core.codec import LogRecord
from kstore_core.errors import (
    EngineError,
    EngineLockedError,
    InconsistentStateError,
)
from tests.changelog.broker.broker import Broker
from tests.changelog.broker.records import NOW_MS, fill, two_transactions, wait_until
from tests.changelog.logs import contents

TOOL = "org.apache.kafka.tools.DumpLogSegments"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

RECORDS: list[tuple[bytes, bytes | None, int, Any]] = [
    (b"k", b"v", NOW_MS, [("a", None), ("a", b""), ("a", b"1"), ("", b"x"), ("ä€😀", b"\0\xff")]),
    (b"", b"", -1, []),
    (b"k", None, 1, [("gone", None)]),
    (b"\xff" * 300, b"large" * 180_000, NOW_MS, None),
    *((b"%d" % number, b"value" * number, NOW_MS + number, None) for number in range(300)),
]


def open_log(broker: Broker, topic: str, **options: Any) -> KafkaChangelog:
    return KafkaChangelog(broker.servers, topic, **{"timeout_s": 10, **options})


def as_log(records: list[tuple[bytes, bytes | None, int, Any]]) -> list[LogRecord]:
    return [
        LogRecord(at, time, key, value, headers)
        for at, (key, value, time, headers) in enumerate(records)
    ]


def set_topic(broker: Broker, topic: str, name: str, value: object) -> None:
    entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([asked])[asked].result(20)


def failure(log: KafkaChangelog) -> str:
    """What a commit says; nothing where it succeeds."""
    try:
        log.commit()
    except EngineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_logged_is_read_and_lies_in_files_as_ours(broker: Broker, codec: str) -> None:
    """Kafka's own files, read while the broker has them open."""
    topic = broker.create()
    with open_log(broker, topic, settings={"compression.type": codec}) as log:
        fill(log, RECORDS)
        assert contents(log) == as_log(RECORDS)
        assert contents(log, 2) == as_log(RECORDS)[2:]
        assert (log.start_offset, log.high_watermark) == (0, len(RECORDS))
    with FileChangelog(broker.data, topic, read_only=True) as files:
        assert [record for columns in files.read() for record in columns] == as_log(RECORDS)


def test_our_files_are_read_by_kafkas_tool(broker: Broker, tmp_path: Path) -> None:
    paths = []
    for codec in CODECS:
        with FileChangelog(tmp_path, codec, config=LogConfig(compression=codec)) as log:
            for record in RECORDS:
                log.append(*record)
        paths.append(str(log.path / f"{0:020d}.log"))
    with FileChangelog(tmp_path, "compacted", config=LogConfig(segment_bytes=3000)) as log:
        for number in range(300):
            log.append(b"%d" % (number % 7), b"value", NOW_MS)
            log.commit()
        log.compact()
    names = sorted(path.name for path in log.path.glob("*.log"))
    paths += [str(log.path / name) for name in names]
    said = broker.run(TOOL, "--deep-iteration", f"--files={','.join(paths)}")
    assert "isvalid: false" not in said
    assert said.count("baseOffset: ") == said.count("isvalid: true")
    records = [line for line in said.splitlines() if line.startswith("| offset: ")]
    assert records.count(
        "| offset: 2 CreateTime: 1 keySize: 1 valueSize: -1 sequence: -1 headerKeys: [gone]"
    ) == len(CODECS)
    assert len(records) == len(CODECS) * len(RECORDS) + sum(1 for _ in _read(log))


def _read(log: FileChangelog) -> Iterator[LogRecord]:
    with FileChangelog(log.path.parent, log.topic, read_only=True) as again:
        for columns in again.read():
            yield from columns


def test_what_the_cleaner_leaves(broker: Broker) -> None:
    topic = broker.create(min_cleanable_dirty_ratio=0, segment_ms=50, delete_retention_ms=0)
    records = [(b"%d" % (number % 5), b"%d" % number, NOW_MS, None) for number in range(100)]
    with open_log(broker, topic) as log:
        fill(log, records)
        fill(log, [(b"0", b"last", NOW_MS + 100, None)])  # in a segment of its own
        wait_until(lambda: len(contents(log)) <= 6)
        found = contents(log)
        assert [record.offset for record in found] == [95, 96, 97, 98, 99, 100]
        assert [record.value for record in found[-2:]] == [b"99", b"last"]
        assert contents(log, 3) == found
        assert contents(log, 98) == found[3:]
    with FileChangelog(broker.data, topic, read_only=True) as files:
        assert [record for columns in files.read() for record in columns] == found


def test_transactions_of_others(broker: Broker) -> None:
    topic = broker.create()
    other = two_transactions(broker.servers, topic)
    with open_log(broker, topic) as log:
        assert [(record.offset, record.value) for record in contents(log)] == [(0, b"1")]
        assert log.high_watermark == 4, "behind the control record that aborts"
        fill(log, [(b"k", b"3", 1, None)])
    other.begin_transaction()
    other.produce(topic, b"4", b"k", 0, timestamp=1)
    other.flush(10)
    with pytest.raises(EngineLockedError, match=r"from offset 5 on, has not ended within 0\.5 s"):
        open_log(broker, topic, timeout_s=0.5)
    with open_log(broker, topic, read_only=True) as log:
        assert [record.value for record in contents(log)] == [b"1", b"3"]
        assert log.high_watermark == 5
        other.commit_transaction()
        wait_until(lambda: log.high_watermark > 5)
        assert [record.value for record in contents(log)] == [b"1", b"3", b"4"]
    other.close()
    with FileChangelog(broker.data, topic, read_only=True) as files:
        values = [record.value for columns in files.read() for record in columns]
        assert values == [b"1", b"2", b"3", b"4"], "what was aborted, files do not say"


def test_what_the_topic_refuses_waits_until_it_takes_it(broker: Broker) -> None:
    topic = broker.create(max_message_bytes=1000)
    with open_log(broker, topic) as log:
        for record in [
            (b"k", b"small", 1, None),
            (b"k", b"x" * 2000, 1, None),
            (b"k", b"ahead", NOW_MS + 10**10, None),
            (b"k", b"last", 1, None),
        ]:
            log.append(*record)
        assert "larger than the topic allows; raise its max.message.bytes" in failure(log)
        set_topic(broker, topic, "max.message.bytes", 10_000)
        wait_until(lambda: "raise the topic's message.timestamp.after.max.ms" in failure(log))
        set_topic(broker, topic, "message.timestamp.after.max.ms", 10**12)
        wait_until(lambda: not failure(log))
        values = [record.value for record in contents(log)]
        assert values[-4:] == [b"small", b"x" * 2000, b"ahead", b"last"]


def test_a_broker_that_stops_answering(broker: Broker) -> None:
    with open_log(broker, broker.create(), timeout_s=1) as log:
        log.append(b"k", b"1", 1)
        wait_until(lambda: not failure(log))
        rows = log.read()
        log.append(b"k", b"2", 1)
        with broker.paused():
            for use in (log.commit, lambda: log.start_offset, lambda: list(rows)):
                begun = time.monotonic()
                with pytest.raises(EngineError, match="no answer within 1 s"):
                    use()
                assert time.monotonic() - begun < 10
        wait_until(lambda: not failure(log))
        values = [record.value for record in contents(log)]
        assert set(values) == {b"1", b"2"}
        assert values == sorted(values)


def test_a_log_of_which_the_begin_has_expired(broker: Broker) -> None:
    topic = broker.create(cleanup_policy="delete")
    with open_log(broker, topic) as log:
        fill(log, [(b"k", b"%d" % number, NOW_MS, None) for number in range(3000)])
        rows = log.read(2)
        broker.admin.delete_records([TopicPartition(topic, 0, 2500)])
        wait_until(lambda: log.start_offset == 2500)
        assert contents(log)[0].offset == 2500
        with pytest.raises(InconsistentStateError, match="the requested records have expired"):
            list(rows)


@pytest.mark.parametrize("right", ["WRITE", "READ", "DESCRIBE"])
def test_a_user_who_may_not(broker: Broker, right: str) -> None:
    """Everybody is User:ANONYMOUS to this broker."""
    topic = broker.create()
    everybody = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"
    rules = [
        AclBinding(*everybody, AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*everybody, AclOperation[right], AclPermissionType.DENY),
    ]
    with open_log(broker, topic) as log:
        fill(log, [(b"k", b"v", 1, None)])
    for made in broker.admin.create_acls(rules).values():
        made.result(20)

    def use() -> None:
        with open_log(broker, topic, timeout_s=3) as log:
            contents(log)
            log.append(b"k", b"v", 1)

    with pytest.raises(EngineError, match=r"AUTHORIZATION_FAILED.*user lacks a right"):
        use()


def test_a_user_with_a_password_and_one_with_another(broker: Broker) -> None:
    topic = broker.create()
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    with KafkaChangelog(broker.guarded, topic, settings=settings, timeout_s=10) as log:
        fill(log, [(b"k", b"v", 1, None)])
        assert len(contents(log)) == 1
    begun = time.monotonic()
    with pytest.raises(EngineError, match="reject this client; check the credentials") as refused:
        KafkaChangelog(broker.guarded, topic, settings=settings | {"sasl.password": "guessed"})
    assert time.monotonic() - begun < 10, "without waiting for its time to be over"
    assert "guessed" not in str(refused.value)

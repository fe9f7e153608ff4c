"""Changelogs in Kafka, as far as librdkafka's mock of a cluster goes; broker/ has the real one."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.changelog import KafkaChangelog, KafkaChangelogs
from kstore_core.changelog.kafka import client as kafka_client
from kstore_core.changelog.kafka.errors import meaning
from kstore_core.changelog.whole import without_marks
from kstore_core.codec import LogRecord, RecordColumns
from kstore_core.errors import (
    CorruptionError,
    EngineError,
    EngineLockedError,
    EngineUnavailableError,
    ForkedHandleError,
    InconsistentStateError,
    SpecError,
    StateError,
    StoreClosedError,
    UnsupportedError,
)
from kstore_core.restore.rows import Restored
from kstore_core.testing.kinds import KEY_VALUE, SESSION, VERSIONED, WINDOW, Kind
from kstore_core.testing.running import quick
from tests.changelog.broker.broker import free_ports
from tests.changelog.logs import append_in_threads, contents
from tests.changelog.mock_cluster import mock_cluster, topic_maker
from tests.restore.failover import run, some_input, undisturbed
from tests.restore.stores import contents as contents_of
from tests.restore.stores import spec_of

OpenLog = Callable[..., KafkaChangelog]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with mock_cluster() as servers:
        yield servers


@pytest.fixture(scope="module")
def new_topic(servers: str) -> Callable[[], str]:
    return topic_maker(servers)


@pytest.fixture
def log(servers: str, new_topic: Callable[[], str]) -> Iterator[KafkaChangelog]:
    with KafkaChangelog(servers, new_topic(), 2, timeout_s=5) as opened:
        yield opened


def columns_of(*values: bytes) -> RecordColumns:
    columns = RecordColumns()
    for number, value in enumerate(values):
        columns.append(number + 10, 5, b"k", value)
    return columns


RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=4),
        st.none() | st.binary(max_size=4),
        st.integers(-1, 2**42).filter(bool),
        st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3),
                st.none() | st.binary(max_size=3),
            ),
            max_size=3,
        ),
    ),
    max_size=20,
)


def test_what_is_committed_is_read(servers: str, new_topic: Callable[[], str]) -> None:
    with KafkaChangelog(servers, new_topic(), timeout_s=5) as log:

        @quick(40)
        @given(RECORDS)
        def run(records: list[tuple[bytes, bytes | None, int, Any]]) -> None:
            begin = log.high_watermark
            for record in records:
                log.append(*record)
            assert log.commit() == log.high_watermark == begin + len(records)
            wanted = [LogRecord(begin + at, t, k, v, h) for at, (k, v, t, h) in enumerate(records)]
            assert contents(log, begin) == wanted

        run()
        assert log.start_offset == 0


def test_a_commit_with_nothing_to_send_tells_where_the_log_ends(log: KafkaChangelog) -> None:
    assert log.commit() == 0
    log.extend(columns_of(b"1", b"2"))
    assert log.pending_bytes == 4
    assert log.commit() == 2
    assert log.commit() == 2
    assert [(one.offset, one.value) for one in contents(log)] == [(0, b"1"), (1, b"2")]
    assert [one.offset for one in contents(log, 1)] == [1]
    assert contents(log, 2) == []


def test_what_lingers_too_long_is_sent_and_what_is_discarded_is_not(
    servers: str, new_topic: Callable[[], str]
) -> None:
    topic = new_topic()
    with KafkaChangelog(servers, topic, linger_bytes=10) as log:
        log.append(b"key", b"value", 5)
        log.discard()
        assert log.high_watermark == 0
        log.append(b"key", b"value sent", 5)
        assert log.high_watermark == 1
        log.extend(columns_of(b"1" * 10))
        log.append(b"key", b"v", 5)
        assert log.high_watermark == 2
        log.close()
    with KafkaChangelog(servers, topic, read_only=True) as log:
        assert log.high_watermark == 2


def test_leaving_by_an_exception_sends_nothing(servers: str, new_topic: Callable[[], str]) -> None:
    topic = new_topic()
    with pytest.raises(KeyError), KafkaChangelog(servers, topic) as log:  # noqa: PT012
        log.append(b"k", b"v", 5)
        raise KeyError
    with KafkaChangelog(servers, topic) as log:
        assert log.high_watermark == 0


def test_two_reads_at_once_and_one_that_is_left(log: KafkaChangelog) -> None:
    log.extend(columns_of(*(b"%d" % number for number in range(3000))))
    log.commit()
    one, other = log.read(), log.read(2900)
    assert next(one)[0].offset == 0
    log.append(b"k", b"later", 5)
    log.commit()
    assert sum(map(len, other)) == 100
    del one
    assert len(contents(log)) == 3001


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((b"k", b"v", 0), "timestamp 0"),
        ((b"k", b"v", 1, [("a\0b", b"")]), "header's key contains a NUL"),
    ],
)
def test_what_the_library_would_change_is_refused_and_waits(
    log: KafkaChangelog, record: tuple[Any, ...], why: str
) -> None:
    log.append(*record)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=why):
            log.commit()
    assert log.high_watermark == 0
    log.discard()
    log.append(b"k", b"v", 1)
    assert log.commit() == 1


def test_keys_are_needed_and_headers_checked(log: KafkaChangelog) -> None:
    keyless = RecordColumns()
    keyless.append(0, 1, None, b"v")
    with pytest.raises(TypeError, match="must be bytes, not None"):
        log.append(None, b"v", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="1 records have no key"):
        log.extend(keyless)
    with pytest.raises(ValueError, match="surrogate"):
        log.append(b"k", b"v", 1, [("\ud800", b"")])
    assert log.pending_bytes == 0


def test_a_reader_writes_nothing(servers: str, new_topic: Callable[[], str]) -> None:
    with KafkaChangelog(servers, new_topic(), read_only=True) as log:
        for write in (log.commit, log.discard, lambda: log.append(b"k", b"v", 1)):
            with pytest.raises(UnsupportedError, match="read_only"):
                write()


def test_a_log_that_ends_before_what_is_asked_for(log: KafkaChangelog) -> None:
    with pytest.raises(InconsistentStateError, match=r"ends at offset 0, but .* at offset 7"):
        log.read(7)


def test_after_close(log: KafkaChangelog) -> None:
    log.append(b"k", b"v", 1)
    log.commit()
    rows = log.read()
    log.close()
    log.close()
    assert "closed" in repr(log)
    for use in (log.commit, log.read, lambda: log.high_watermark, lambda: log.start_offset):
        with pytest.raises(StoreClosedError):
            use()
    assert [len(columns) for columns in rows] == [1], "a read that has begun has its own connection"


def test_no_thread_is_left(servers: str, new_topic: Callable[[], str]) -> None:
    topic, tasks = new_topic(), Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    with KafkaChangelog(servers, topic) as log:
        log.extend(columns_of(b"1"))
        log.commit()
        contents(log)
        assert len(list(tasks.iterdir())) > before
    assert len(list(tasks.iterdir())) == before


def test_one_that_is_never_closed_is_told(servers: str, new_topic: Callable[[], str]) -> None:
    log = KafkaChangelog(servers, new_topic())
    with pytest.warns(ResourceWarning, match="never closed"):  # noqa: PT031
        del log
        gc.collect()


def test_a_fork_uses_none_of_it(log: KafkaChangelog) -> None:
    log.append(b"k", b"v", 1)
    log.commit()
    rows = log.read()
    next(rows)
    script = [lambda: log.commit(), lambda: log.high_watermark, lambda: log.read()]
    child = os.fork()
    if child == 0:
        refused = 0
        for use in script:
            try:
                use()
            except ForkedHandleError:
                refused += 1
        log.close()
        del rows
        gc.collect()
        os._exit(0 if refused == 3 else 1)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if done == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == (child, 0), "the child hung or failed"
    log.append(b"k", b"v", 1)
    assert log.commit() == 2


def test_threads_append_in_their_order(log: KafkaChangelog) -> None:
    append_in_threads(log, 100, every=25, then=log.commit)


@pytest.mark.parametrize("settings", [{"acks": 1}, {"transactional.id": "x", "acks": 1}])
def test_settings_that_are_its_own(settings: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"settings contain acks.* itself"):
        KafkaChangelog("localhost:1", "t", settings=settings)


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        (("t",), {"settings": {"no.such": "x"}}, "No such configuration property"),
        (("t",), {"timeout_s": 0}, "timeout_s must be more than 0, not 0"),
        (("t", -1), {}, "partition of t must be 0 or above, not -1"),
        (("a/b",), {}, "cannot be the name of a topic"),
    ],
)
def test_arguments_that_are_wrong(
    arguments: tuple[Any, ...], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        KafkaChangelog("localhost:1", *arguments, **options)


def test_brokers_that_are_not_there() -> None:
    (port,) = free_ports(1)
    begun = time.monotonic()
    with pytest.raises(EngineError, match=rf"at 127.0.0.1:{port}: .*no answer within 0.5 s"):
        KafkaChangelog(f"127.0.0.1:{port}", "t", timeout_s=0.5)
    assert time.monotonic() - begun < 5


def test_a_producer_that_cannot_go_on_closes_its_log(
    log: KafkaChangelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the library tells where brokers do not have what it has sent before."""
    assert log._writer is not None
    producer = log._writer._producer
    failures = [KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", True), KafkaError(-150)]

    class Fatal:
        def produce(self, *arguments: object, on_delivery: Any, **more: object) -> None:
            on_delivery(failures.pop(), None)

        def flush(self, timeout: float) -> int:
            return 0

    log.extend(columns_of(b"1", b"2"))
    with monkeypatch.context() as patch:
        patch.setattr(log._writer, "_producer", Fatal())
        patch.setattr(log._writer, "close", lambda: log._cluster.close(producer))
        with pytest.raises(EngineError, match=r"OUT_OF_ORDER.* so the changelog was closed"):
            log.commit()
    with pytest.raises(StoreClosedError):
        log.commit()


@pytest.mark.slow
def test_brokers_that_go_away_and_what_waits_stays() -> None:
    mock = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = mock.list_topics("t", timeout=10).brokers[1]
    servers = f"{broker.host}:{broker.port}"
    log = KafkaChangelog(servers, "t", timeout_s=0.7)
    log.append(b"k", b"v", 1)
    rows = log.read(0)
    mock.close()
    del mock, broker
    gc.collect()
    for _ in range(2):
        with pytest.raises(EngineError, match=rf"t-0 was not written, at {servers}.*no answer"):
            log.commit()
        assert log.pending_bytes == 2
    with pytest.raises(EngineError, match=r"no answer within 0\.7 s"):
        _ = log.high_watermark
    assert list(rows) == [], "there was nothing to read"
    log.close()


def test_a_partition_that_is_not_there(servers: str, new_topic: Callable[[], str]) -> None:
    with pytest.raises(StateError, match="no changelog topic nowhere"):
        KafkaChangelog(servers, "nowhere")
    with pytest.raises(StateError, match="no partition 4 of topic-"):
        KafkaChangelog(servers, new_topic(), 4)


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", EngineError, "user lacks a right"),
        ("CLUSTER_AUTHORIZATION_FAILED", EngineError, "user lacks a right"),
        ("_AUTHENTICATION", EngineError, "check the credentials"),
        ("_MSG_TIMED_OUT", EngineError, "no answer within 3 s"),
        ("NOT_ENOUGH_REPLICAS", EngineError, "min.insync.replicas"),
        ("MSG_SIZE_TOO_LARGE", EngineError, "max.message.bytes"),
        ("_FENCED", EngineLockedError, "another producer"),
        ("INVALID_PRODUCER_EPOCH", EngineLockedError, "another producer"),
        ("_AUTO_OFFSET_RESET", InconsistentStateError, "have expired"),
        ("_BAD_MSG", CorruptionError, "damaged"),
        ("UNKNOWN_TOPIC_OR_PART", StateError, "no such topic"),
        ("_SOMETHING_NEW", EngineError, "t-0 at b:1: _SOMETHING_NEW"),
    ],
)
def test_errors_say_what_to_do(name: str, kind: type[Exception], why: str) -> None:
    error = meaning(name, f"t-0 at b:1: {name}", 3)
    assert type(error) is kind
    assert why in str(error)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EngineUnavailableError, match=r"pip install .*'confluent-kafka>=2"):
        KafkaChangelog("localhost:1", "t")


def test_importing_changelogs_does_not_load_the_library() -> None:
    code = "import kstore_core.changelog, sys; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_store_takes_its_changelog(
    servers: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    spec = stores.timestamped_key_value_with_headers("s")
    with KafkaChangelog(servers, new_topic(), 1) as log:
        with open_state(tmp_path / "0_1", engine="lmdb", changelog=log) as state:
            state.open(spec).put(b"k", b"v", timestamp=7, headers=[("a", None), ("a", b"")])
            state.commit({("in", 1): 3})
            assert state.offsets("s") == {("in", 1): 3, (log.topic, 1): 2}
        with open_state(tmp_path / "other", engine="memory") as state:
            assert state.restore(spec, log) == Restored(1, 0, 1, {("in", 1): 3})
            found = state.open(spec).get(b"k")
            assert (found.value, found.timestamp) == (b"v", 7)
            assert list(found.headers) == [("a", None), ("a", b"")]


def test_a_store_keeps_what_its_log_did_not_get(
    servers: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    spec = stores.timestamped_key_value("s")
    with KafkaChangelog(servers, new_topic()) as log:
        with open_state(tmp_path / "0_0", engine="lmdb", changelog=log) as state:
            store = state.open(spec)
            store.put(b"k", b"v", timestamp=0)
            with pytest.raises(UnsupportedError, match="timestamp 0"):
                state.commit({("in", 0): 3})
            assert store.get(b"k").value == b"v"
            assert state.offsets("s") == {}
            log.discard()
            store.put(b"k", b"w", timestamp=1)
            state.commit({("in", 0): 4})
        rows = [record.value for columns in log.read() for record in without_marks(columns)]
        assert rows == [b"w"]


def test_partitions_and_topics_of_tasks(servers: str, tmp_path: Path) -> None:
    logs = KafkaChangelogs(servers)
    with pytest.raises(SpecError, match="not named after a task"):
        logs.changelog_of(stores.key_value("s"), tmp_path / "state")
    with pytest.raises(SpecError, match=r"no topic app-s-changelog .* partitions=…"):
        logs.changelog_of(stores.key_value("s"), tmp_path / "app" / "0_0")
    with pytest.raises(SpecError, match="partitions must be 1 or more, not 0"):
        KafkaChangelogs(servers, partitions=0)


def test_a_topic_of_another_application(servers: str, new_topic: Callable[[], str]) -> None:
    Producer({"bootstrap.servers": servers}).list_topics("app-s-changelog", timeout=10)
    logs = KafkaChangelogs(servers, partitions=3, check_settings=False)
    with pytest.raises(SpecError, match=r"has 4 partitions, .* partitions is 3"):
        logs.changelog_of(stores.key_value("s"), Path("app/0_0"))


def test_all_clients_are_forgotten() -> None:
    gc.collect()
    assert not kafka_client._open


@pytest.mark.parametrize("kind", [KEY_VALUE[2], VERSIONED[1], WINDOW[4], SESSION[0]], ids=str)
def test_a_takeover_from_what_a_killed_producer_left(
    servers: str, new_topic: Callable[[], str], kind: Kind
) -> None:
    """Again and again: the brokers have some of the records of its last commit, or all of them."""
    given = some_input(5, 40)
    chosen = random.Random(str(kind))
    topic, returned = new_topic(), -1
    for _ in range(3):
        ends = []
        with (
            KafkaChangelog(servers, topic, timeout_s=5) as log,
            open_state("new", engine="memory", changelog=log) as state,
        ):
            state.open(spec_of(kind))
            begun = log.high_watermark
            assert state.offsets().get(("in", 0), -1) >= returned
            store = run(
                kind,
                state,
                given,
                every=10,
                committed=lambda offset, ends=ends, log=log: ends.append(
                    (offset, log.high_watermark)
                ),
            )
            assert contents_of(kind, store) == undisturbed(kind, given)
            size = chosen.randrange(begun, log.high_watermark + 1)
            returned = max([returned, *(offset for offset, end in ends if end <= size)])
            sent = contents(log)[:size]
        topic = new_topic()
        with KafkaChangelog(servers, topic, timeout_s=5) as log:
            for record in sent:
                assert record.key is not None
                log.append(record.key, record.value, record.timestamp, record.headers)
            assert log.commit() == size

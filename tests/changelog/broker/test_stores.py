"""Stores that log to a real Kafka: what they restore, after a kill too, and their topics."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kstore_core import open_state, stores
from kstore_core.changelog import KafkaChangelog, KafkaChangelogs, changelog_topic, topic_config
from kstore_core.errors import InconsistentStateError, SpecError
from kstore_core.spec import StoreSpec
from kstore_core.testing.kinds import KINDS, LAYERED, Kind
from tests.changelog.broker.broker import Broker
from tests.changelog.broker.broker_stores import logs_of, spec_kept
from tests.changelog.broker.records import NOW_MS, fill, two_transactions, wait_until
from tests.restore.killed import KINDS as ONE_OF_A_SHAPE
from tests.restore.killed import ops_of
from tests.restore.stores import contents, write
from tests.support import pages
from tests.support.places import ROOT

WRITER = """
import os, signal, sys
from pathlib import Path
from kstore_core import open_state
from kstore_core.changelog import KafkaChangelog
from tests.changelog.broker.broker_stores import logs_of, spec_kept
from tests.restore.stores import write
from tests.restore.killed import KINDS, ops_of

root, kind, servers, at = Path(sys.argv[1]), KINDS[int(sys.argv[2])], sys.argv[3], int(sys.argv[4])
commits, commit = 0, KafkaChangelog.commit

def commit_and_die(log):
    global commits
    end = commit(log)
    commits += 1
    if commits == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return end

KafkaChangelog.commit = commit_and_die
with open_state(root / "0_0", engine="rocksdb", changelog=logs_of(servers, root)) as state:
    store = state.open(spec_kept(kind))
    for number in range(1, 10_000):
        write(kind, store, ops_of(4 * number))
        state.commit({("in", 0): number})
        print(number, flush=True)
"""


def writing(root: Path, number: int, servers: str, at: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(root), str(number), servers, str(at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.parametrize("kind", [*KINDS, *LAYERED], ids=str)
def test_what_is_restored_is_what_was_logged(broker: Broker, kind: Kind, tmp_path: Path) -> None:
    logs = logs_of(broker.servers, tmp_path)
    spec = spec_kept(kind)
    with open_state(tmp_path / "0_0", engine="memory", changelog=logs) as state:
        store = state.open(spec)
        for number in range(1, 6):
            write(kind, store, ops_of(4 * number))
            state.commit({("in", 0): number})
        wanted, offsets = contents(kind, store), store.offsets()
    with open_state(tmp_path / "new", engine="memory", changelog=logs) as state:
        store = state.open(spec)
        assert contents(kind, store) == wanted
        assert store.offsets() == offsets


@pytest.mark.parametrize(
    "number", range(len(ONE_OF_A_SHAPE)), ids=lambda n: ONE_OF_A_SHAPE[n].shape
)
def test_killed_when_the_log_has_it_and_the_rows_do_not(
    broker: Broker, number: int, tmp_path: Path
) -> None:
    kind, logs = ONE_OF_A_SHAPE[number], logs_of(broker.servers, tmp_path)
    with writing(tmp_path, number, broker.servers, 3) as process:
        assert process.stdout is not None
        assert process.stdout.read().split() == ["1", "2"]
    assert process.returncode == -signal.SIGKILL
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs) as state:
        store = state.open(spec_kept(kind))
        assert store.offsets()["in", 0] == 3
        found = contents(kind, store)
    with open_state(tmp_path / "model", engine="memory") as state:
        store = state.open(spec_kept(kind))
        for at in (1, 2, 3):
            write(kind, store, ops_of(4 * at))
        assert found == contents(kind, store)


def test_a_standby_follows_the_log_of_another_process(broker: Broker, tmp_path: Path) -> None:
    kind, topic = (
        ONE_OF_A_SHAPE[0],
        changelog_topic(str(logs_of(broker.servers, tmp_path).application_id), "s"),
    )
    with (
        writing(tmp_path, 0, broker.servers, 10_000) as process,
        open_state(tmp_path / "standby", engine="memory") as standby,
    ):
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(3)]
        with KafkaChangelog(broker.servers, topic, read_only=True) as log:
            for _ in range(3):
                restored = standby.restore(spec_kept(kind), log)
                assert standby.offsets("s")[topic, 0] >= 12 * len(told) - 1
                told += [process.stdout.readline() for _ in range(3)]
            process.kill()
            process.wait()
            standby.restore(spec_kept(kind), log)
            assert restored is not None
        found = contents(kind, standby.open(spec_kept(kind)))
    logs = logs_of(broker.servers, tmp_path)
    with open_state(tmp_path / "0_0", engine="rocksdb", changelog=logs) as state:
        assert contents(kind, state.open(spec_kept(kind))) == found


SPECS = [
    stores.key_value("kv"),
    stores.timestamped_key_value_with_headers("more").with_changelog(
        {"segment.bytes": "2000000", "compression.type": "lz4"}
    ),
    stores.versioned_key_value("versioned", 60_000),
    stores.window("window", 600_000, 1000),
    stores.window("duplicates", 600_000, 1000, retain_duplicates=True),
    stores.session("session", 600_000),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_topics_are_made_as_kafka_streams_makes_them(broker: Broker, spec: StoreSpec) -> None:
    logs = KafkaChangelogs(broker.servers, partitions=3)
    for _ in range(2):  # made, and found again
        with logs.changelog_of(spec, Path("made/0_2")) as log:
            assert (log.topic, log.partition) == (f"made-{spec.name}-changelog", 2)
    actual, wanted = broker.settings_of(log.topic), topic_config(spec, dict(spec.changelog))
    assert {name: actual[name] for name in wanted} == wanted


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("spec", "settings", "lost"),
    [
        (SPECS[0], {"cleanup_policy": "delete"}, "cleanup.policy=delete"),
        (SPECS[0], {"cleanup_policy": "compact,delete"}, "cleanup.policy=compact,delete"),
        (SPECS[0], {"message_timestamp_type": "LogAppendTime"}, "message.timestamp.type=LogApp"),
        (SPECS[2], {"min_compaction_lag_ms": DAY_MS}, f"min.compaction.lag.ms={DAY_MS}"),
        (SPECS[3], {"cleanup_policy": "delete"}, "cleanup.policy=delete"),
        (
            SPECS[3],
            {"cleanup_policy": "compact,delete", "retention_ms": DAY_MS},
            f"retention.ms={DAY_MS}",
        ),
        (SPECS[4], {"cleanup_policy": "compact"}, "cleanup.policy=compact"),
        (SPECS[0], {"min_compaction_lag_ms": 1, "retention_ms": 1}, None),
        (SPECS[2], {"min_compaction_lag_ms": 10 * DAY_MS}, None),
        (SPECS[3], {"cleanup_policy": "compact"}, None),
        (SPECS[3], {"cleanup_policy": "compact,delete", "retention_ms": -1}, None),
    ],
)
def test_a_topic_that_would_lose_something(
    broker: Broker, spec: StoreSpec, settings: dict[str, Any], lost: str | None
) -> None:
    application = f"other-{broker.number}"
    broker.create(name=changelog_topic(application, spec.name), **settings)
    logs = KafkaChangelogs(broker.servers, application_id=application, partition=0)
    if lost is None:
        logs.changelog_of(spec, Path("0_0")).close()
        return
    with pytest.raises(SpecError) as refused:
        logs.changelog_of(spec, Path("0_0"))
    assert f"do not fit a changelog: {lost}" in str(refused.value)
    assert "--add-config" in str(refused.value)
    unchecked = KafkaChangelogs(
        broker.servers, application_id=application, partition=0, check_settings=False
    )
    unchecked.changelog_of(spec, Path("0_0")).close()


def test_a_topic_with_another_number_of_partitions(broker: Broker) -> None:
    topic = broker.create(2)
    application, spec = topic, stores.key_value("s")
    broker.create(2, name=changelog_topic(application, "s"))
    logs = KafkaChangelogs(broker.servers, application_id=application, partitions=3)
    with pytest.raises(
        SpecError, match="has 2 partitions, so its application has 2 tasks, but partitions is 3"
    ):
        logs.changelog_of(spec, Path("0_1"))


def test_a_log_that_no_longer_reaches_back_to_the_store(broker: Broker, tmp_path: Path) -> None:
    spec, topic = stores.key_value("s"), broker.create(cleanup_policy="compact,delete")
    with KafkaChangelog(broker.servers, topic) as log:
        with open_state(tmp_path / "0_0", engine="lmdb", changelog=log) as state:
            state.open(spec).put(b"k", b"v")
            state.commit()
        fill(log, [(b"%d" % number, b"", NOW_MS, None) for number in range(50)])
        broker.admin.delete_records([TopicPartition(topic, 0, 20)])
        wait_until(lambda: log.start_offset == 20)
        behind = "the log begins at offset 20"
        with (
            open_state(tmp_path / "0_0", engine="lmdb") as state,
            pytest.raises(InconsistentStateError, match=behind),
        ):
            state.restore(spec, log)
        with open_state(tmp_path / "new", engine="lmdb") as state:
            assert state.restore(spec, log).records == 31


def test_a_log_that_ends_with_what_is_no_record(broker: Broker, tmp_path: Path) -> None:
    spec, topic = stores.key_value("s"), broker.create()
    two_transactions(broker.servers, topic).close()
    with (
        KafkaChangelog(broker.servers, topic, read_only=True) as log,
        open_state(tmp_path / "0_0", engine="lmdb") as state,
    ):
        wait_until(lambda: log.high_watermark == 4)
        for restored in (1, 0):
            assert state.restore(spec, log).records == restored
            assert state.offsets("s") == {(topic, 0): 3}
        assert state.open(spec).get(b"k") == b"1"


def test_the_page_prints_what_it_says(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = pages.blocks("kafka.md")
    (promised,) = pages.blocks("kafka.md", language="text")
    assert "127.0.0.1:9092" in code
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code.replace("127.0.0.1:9092", broker.servers), {})
    assert out.getvalue() == promised

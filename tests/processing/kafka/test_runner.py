"""Topologies on a real Kafka: exact outputs after kills, rebalances and restarts of the broker."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kstore_core import Headers, open_state
from kstore_core.changelog import KafkaChangelogs
from kstore_core.errors import (
    StateError,
    TopologyError,
    UnsupportedError,
)
from kstore_core.processing import Output, Processor, Record, Topology
from kstore_core.processing.kafka import KafkaRunner
from tests.changelog.broker.broker import Broker
from tests.processing.kafka.words import (
    COUNTS,
    SEEN,
    TEXT,
    created,
    expected,
    numbers,
    read,
    send,
    started,
    topology,
)
from tests.support import pages

GUARANTEES = ("at_least_once", "exactly_once_v2")
NOW = 1_700_000_000_000


def lines_of(count: int, first: int = 0) -> list[tuple[str, str, int]]:
    """Lines of three words each."""
    return [
        (f"k{number % 7}", f"w{number % 5} v{number % 3} x", NOW + number)
        for number in range(first, first + count)
    ]


def words_in(lines: list[tuple[str, str, int]]) -> int:
    return sum(len(text.split()) for _, text, _ in lines)


@contextmanager
def running(broker: Broker, name: str, state: Path, **given: Any) -> Iterator[KafkaRunner]:
    """A runner in a thread, which must end without an error."""
    settings: dict[str, Any] = {"commit_interval_ms": 100, "timeout_s": 20, **given}
    made = settings.pop("topology", None) or topology(name)
    runner = KafkaRunner(made, servers=broker.servers, application_id=name, state=state, **settings)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            runner.run()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield runner
    finally:
        runner.stop()
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_topology_runs_and_continues(broker: Broker, tmp_path: Path, guarantee: Any) -> None:
    name, lines = created(broker), lines_of(300)
    send(broker.servers, name, lines[:200])
    with running(broker, name, tmp_path, guarantee=guarantee) as runner:
        read(broker.servers, f"{name}-counts", words_in(lines[:200]))
        assert runner.tasks == ("0_0", "0_1", "1_0", "1_1")
        found: dict[str, int] = {}
        deadline = time.monotonic() + 90
        while found.get("x") != 200 and time.monotonic() < deadline:
            for partition in (0, 1):
                with runner.view("counts", partition) as view:
                    found |= {key: each.value for key, each in view.open(COUNTS).all()}
        assert found["x"] == 200
        with pytest.raises(StateError, match="the task 0_2 of the store 'seen' does not run in"):
            runner.view("seen", 2)
        with pytest.raises(TopologyError, match="has no store 'none'"):
            runner.view("none", 0)
    assert runner.tasks == ()
    send(broker.servers, name, lines[200:])
    with running(broker, name, tmp_path, guarantee=guarantee):
        got = read(broker.servers, f"{name}-counts", words_in(lines))
    assert numbers(got) == expected(lines)
    assert {headers for *_, pairs in got for headers in (len(pairs),)} == {1}
    assert {(at, int(pairs[0].value)) for _, _, at, pairs in got} == {
        (at, at) for _, _, at in lines
    }
    with open_state(tmp_path / name / "1_0", read_only=True) as state:
        assert any(topic == f"{name}-counts-changelog" for topic, _ in state.offsets("counts"))


def test_a_restored_task_has_the_partition_time_of_kafka_streams(
    broker: Broker, tmp_path: Path
) -> None:
    name, lines = created(broker, 1), lines_of(20)
    send(broker.servers, name, lines)
    with running(broker, name, tmp_path / "first"):
        read(broker.servers, f"{name}-counts", words_in(lines))
        time.sleep(0.3)
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": name})
    (place,) = consumer.committed([TopicPartition(f"{name}-lines", 0)], 20)
    consumer.close()
    assert (place.offset, place.metadata) == (20, "AQAAAYvP5WgT")  # version 1, and NOW + 19
    times: list[int] = []

    class Telling(Processor):
        def process(self, record: Record[Any, Any]) -> None:
            times.append(self.context.stream_time)

    telling = Topology().add_source("lines", f"{name}-lines", key=TEXT, value=TEXT)
    telling.add_processor("tell", Telling, ["lines"])
    send(broker.servers, name, lines_of(1, 5))
    with running(broker, name, tmp_path / "other", topology=telling):
        while not times:
            time.sleep(0.05)
    assert times == [NOW + 19]


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_kills_lose_and_repeat_nothing(broker: Broker, tmp_path: Path, lost: bool) -> None:
    """A process is killed again and again; its states are kept, or lost."""
    name, lines = created(broker), lines_of(3000)
    exactly = ("--guarantee", "exactly_once_v2", "--commit-interval-ms", "50")
    for kill in range(4):
        send(broker.servers, name, lines[kill * 750 : (kill + 1) * 750])
        state = tmp_path / (f"state{kill}" if lost else "state")
        process = started(broker.servers, name, state, *exactly)
        time.sleep(3.0 + 0.37 * kill)
        process.kill()
        process.communicate(timeout=60)
    state = tmp_path / "last" if lost else state
    process = started(broker.servers, name, state, *exactly)
    try:
        got = read(broker.servers, f"{name}-counts", words_in(lines), 180)
        assert numbers(got) == expected(lines)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, "")


@pytest.mark.slow
def test_a_killed_process_leaves_its_tasks_to_another(broker: Broker, tmp_path: Path) -> None:
    name, lines = created(broker), lines_of(2000)
    exactly = ("--guarantee", "exactly_once_v2", "--commit-interval-ms", "50")
    send(broker.servers, name, lines[:500])
    first = started(broker.servers, name, tmp_path / "first", *exactly)
    second = started(broker.servers, name, tmp_path / "second", *exactly)
    time.sleep(6)
    send(broker.servers, name, lines[500:1000])
    time.sleep(1)
    first.kill()
    send(broker.servers, name, lines[1000:])
    third = started(broker.servers, name, tmp_path / "third", *exactly)
    try:
        got = read(broker.servers, f"{name}-counts", words_in(lines), 180)
        assert numbers(got) == expected(lines)
    finally:
        for process in (second, third):
            process.send_signal(signal.SIGTERM)
        ends = [process.communicate(timeout=120)[1] for process in (first, second, third)]
    assert [ends[1:], second.returncode, third.returncode] == [["", ""], 0, 0]


@pytest.mark.slow
def test_a_restart_of_the_broker_loses_and_repeats_nothing(broker: Broker, tmp_path: Path) -> None:
    name, lines = created(broker), lines_of(1200)
    send(broker.servers, name, lines[:600])
    with running(broker, name, tmp_path, guarantee="exactly_once_v2", timeout_s=60):
        read(broker.servers, f"{name}-counts", 100)
        broker.restart()
        send(broker.servers, name, lines[600:])
        got = read(broker.servers, f"{name}-counts", words_in(lines), 180)
    assert numbers(got) == expected(lines)


def test_an_error_of_a_processor_commits_nothing(broker: Broker, tmp_path: Path) -> None:
    name = created(broker, 1)
    calls: list[int] = []

    def failing(context: Any, line: Record[str, str]) -> None:
        calls.append(line.offset)
        context.store("seen").put(line.key, 1)
        context.forward(line)
        if line.value == "bad" and len(calls) < 10:
            raise ValueError("no")

    made = (
        Topology()
        .add_source("lines", f"{name}-lines", key=TEXT, value=TEXT)
        .add_processor("failing", failing, ["lines"], stores=[SEEN])
        .add_sink("counts", f"{name}-counts", ["failing"], key=TEXT, value=TEXT)
    )
    send(broker.servers, name, [("a", "good", NOW), ("b", "bad", NOW + 1)])
    given = {"topology": made, "guarantee": "exactly_once_v2", "commit_interval_ms": 60_000}
    runner = KafkaRunner(
        servers=broker.servers, application_id=name, state=tmp_path, timeout_s=20, **given
    )
    with pytest.raises(ValueError, match="no") as raised:
        runner.run()
    assert f"while it processed {name}-lines-0@1" in raised.value.__notes__[0]
    assert read(broker.servers, f"{name}-counts", 0, 3) == []
    calls += [0] * 10
    with running(broker, name, tmp_path, **given):
        while calls[-2:] != [0, 1]:
            time.sleep(0.05)
    assert [record[:2] for record in read(broker.servers, f"{name}-counts", 2)] == [
        ("a", "good"), ("b", "bad")
    ]  # fmt: skip


def test_a_process_takes_a_task_over_and_fences_the_other(broker: Broker, tmp_path: Path) -> None:
    """The transactions of a process whose tasks another one has are refused."""
    from kstore_core.changelog.kafka.client import Cluster
    from kstore_core.errors import EngineLockedError
    from kstore_core.processing.kafka.outputs import OutputProducer

    name = created(broker, 1)
    cluster = Cluster(broker.servers, None, 20)
    older = OutputProducer(cluster, f"{name}-0_0")
    older.send([Output(f"{name}-counts", b"k", b"v", NOW, Headers())])
    older.flush()
    newer = OutputProducer(cluster, f"{name}-0_0")
    with pytest.raises(EngineLockedError, match="another producer has taken over"):
        older.commit([], None)  # type: ignore[arg-type]
    newer.close()
    older.close()


def test_what_cannot_run_is_refused(broker: Broker, tmp_path: Path) -> None:
    name = created(broker)

    def made(text: Any = None, **given: Any) -> KafkaRunner:
        settings: dict[str, Any] = {"servers": broker.servers, "application_id": name}
        return KafkaRunner(text or topology(name), state=tmp_path, **{**settings, **given})

    with pytest.raises(StateError, match=r"there is no topic other-counts at .* writes"):
        made(topology("other")).run()
    broker.create(3, name=f"{name}-three")
    unequal = topology(name).add_source("three", f"{name}-three")
    unequal.add_processor("p", print, ["three"], stores=[SEEN])
    with pytest.raises(TopologyError, match=rf"different numbers .*{name}-lines: 2, .*three: 3"):
        made(unequal).run()
    send(broker.servers, name, [("a", "b", NOW)])

    def spoil(context: Any, line: Record[str, str]) -> None:
        context.forward(line.replace(headers=[("a\0b", b"")]))

    nul = Topology().add_source("lines", f"{name}-lines", key=TEXT, value=TEXT)
    nul.add_processor("spoil", spoil, ["lines"])
    nul.add_sink("counts", f"{name}-counts", ["spoil"], key=TEXT, value=TEXT)
    with pytest.raises(UnsupportedError, match="a header's key contains a NUL"):
        made(nul).run()


def test_a_second_copy_of_a_store_follows_the_changelog(broker: Broker, tmp_path: Path) -> None:
    """A standby: a state directory that is opened again and again restores only what is new."""
    name, lines = created(broker, 1), lines_of(100)
    logs = KafkaChangelogs(broker.servers, application_id=name, partition=0, timeout_s=20)
    send(broker.servers, name, lines[:50])
    restored = []
    with running(broker, name, tmp_path / "state", guarantee="exactly_once_v2"):
        for end in (50, 100):
            send(broker.servers, name, lines[50:end])
            read(broker.servers, f"{name}-counts", words_in(lines[:end]))
            with open_state(
                tmp_path / "standby" / name / "1_0",
                engine="rocksdb",
                changelog=logs,
                on_restore=lambda progress: restored.append(progress.records),
            ) as copy:
                assert {key: each.value for key, each in copy.open(COUNTS).all()}["x"] == end
    assert restored


def test_a_topic_that_is_deleted_ends_the_runner(broker: Broker, tmp_path: Path) -> None:
    name = created(broker, 1)
    send(broker.servers, name, lines_of(5))
    runner = KafkaRunner(
        topology(name),
        servers=broker.servers,
        application_id=name,
        state=tmp_path,
        commit_interval_ms=100,
        settings={"topic.metadata.refresh.interval.ms": 500},
    )

    def delete() -> None:
        read(broker.servers, f"{name}-counts", 15)
        broker.admin.delete_topics([f"{name}-lines"])[f"{name}-lines"].result(20)

    thread = threading.Thread(target=delete, daemon=True)
    thread.start()
    with pytest.raises(StateError, match="there is no such topic or partition"):
        runner.run()
    thread.join(60)


def test_the_page_runs(broker: Broker, tmp_path: Path) -> None:
    for topic in ("orders", "totals"):
        broker.create(1, name=topic, cleanup_policy="delete", retention_ms=-1)
    page = (pages.DOCS / "processors-on-kafka.md").read_text(encoding="utf-8")
    page = page.replace("127.0.0.1:9092", broker.servers).replace("/var/lib", str(tmp_path))
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)
    producer = Producer({"bootstrap.servers": broker.servers})
    for value in ("5", "7"):
        producer.produce("orders", value, "ann", timestamp=NOW)
    producer.flush(20)
    runner = names["runner"]
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    assert [record[:2] for record in read(broker.servers, "totals", 2)] == [
        ("ann", "5"), ("ann", "12")
    ]  # fmt: skip
    runner.stop()
    thread.join(120)
    names["follow"]()
    with open_state(tmp_path / "standby/shop/0_0", read_only=True) as state:
        assert state.open(names["totals"]).get("ann").value == 12

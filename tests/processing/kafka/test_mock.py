"""The runner and its command on the broker that librdkafka plays, and without any broker."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kstore_core.changelog.kafka.client import Cluster
from kstore_core.errors import EngineError, SpecError, StateError, TopologyError
from kstore_core.processing import Topology
from kstore_core.processing.__main__ import main, topology_at
from kstore_core.processing.kafka import KafkaRunner
from kstore_core.processing.kafka.tasks import _text_of, _time_of
from tests.changelog.mock_cluster import mock_cluster
from tests.processing.kafka.words import read, send, topology

COPY = Topology().add_source("lines", "mock-lines").add_sink("copies", "mock-counts", ["lines"])


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_topology_without_stores_runs(tmp_path: Path, guarantee: Any) -> None:
    with mock_cluster() as servers:
        Cluster(servers).admin().list_topics("mock-lines", timeout=10)
        Cluster(servers).admin().list_topics("mock-counts", timeout=10)
        send(servers, "mock", [(f"k{number}", "text", number + 1) for number in range(50)])
        runner = KafkaRunner(
            COPY,
            servers=servers,
            application_id="mock",
            state=tmp_path,
            guarantee=guarantee,
            commit_interval_ms=50,
        )
        thread = threading.Thread(target=runner.run, daemon=True)
        thread.start()
        found = read(servers, "mock-counts", 50, 30)
        assert "tasks 0_0, 0_1" in repr(runner)
        runner.stop()
        thread.join(30)
        assert sorted(at for _, _, at, _ in found) == list(range(1, 51))
        assert [path.name for path in sorted((tmp_path / "mock").iterdir())][:2] == ["0_0", "0_1"]


def test_what_cannot_run_is_refused(tmp_path: Path) -> None:
    def made(text: Any = None, **given: Any) -> KafkaRunner:
        settings: dict[str, Any] = {"servers": "127.0.0.1:1", "application_id": "app"}
        return KafkaRunner(text or topology("app"), state=tmp_path, **{**settings, **given})

    with pytest.raises(TypeError, match="topology must be a Topology"):
        made("words")
    with pytest.raises(SpecError, match="guarantee"):
        made(guarantee="exactly_once")
    with pytest.raises(SpecError, match="reset"):
        made(reset="none")
    with pytest.raises(SpecError, match="commit_interval_ms must be an int, 1 or more, not 0"):
        made(commit_interval_ms=0)
    with pytest.raises(SpecError, match="reads no topic"):
        made(Topology())
    with pytest.raises(SpecError, match="bad/name"):
        made(application_id="bad/name")
    with pytest.raises(EngineError, match="no answer within"):
        made(timeout_s=1).run()
    runner = made()
    with pytest.raises(StateError, match="the task 0_2 of the store 'seen' does not run in"):
        runner.view("seen", 2)
    with pytest.raises(TopologyError, match="has no store 'none'"):
        runner.view("none", 0)


def test_the_command_names_its_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    (tmp_path / "words_app.py").write_text(
        "from tests.processing.kafka.words import topology as made\n"
        "number = 5\n"
        "def topology():\n    return made('app')\n"
        "def broken():\n    import nothing_here\n"
    )

    def run(text: str, *more: str) -> str:
        arguments = ["run", text, "--bootstrap-servers", "127.0.0.1:1", "--application-id", "app"]
        code = main([*arguments, "--state", str(tmp_path / "state"), "--timeout", "1", *more])
        said = capsys.readouterr().err
        assert (code, said[:7]) == (1, "error: ")
        return said

    try:
        assert "must be module:attribute" in run("words")
        assert "there is no module 'nowhere'" in run("nowhere:topology")
        assert "has no attribute 'none'" in run("words_app:none")
        assert "is not a Topology, but 5" in run("words_app:number")
        assert "--setting 'x' must be NAME=VALUE" in run("words_app:topology", "--setting", "x")
        assert "a changelog itself sets these" in run(
            "words_app:topology", "--setting", "enable.idempotence=false"
        )
        assert "no answer within 1 s" in run("words_app:topology")
        with pytest.raises(ModuleNotFoundError, match="nothing_here"):
            topology_at("words_app:broken")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_the_metadata_of_an_offset_are_those_of_kafka_streams() -> None:
    now = int(time.time() * 1000)
    assert _time_of(_text_of(now)) == now
    assert _time_of("AQAAAYvP5WgT") == 1_700_000_000_019  # of Kafka Streams
    assert _time_of("AgAAAYvP5WgTAAAAAA==") == 1_700_000_000_019  # with more fields
    for other in (None, "", "?", "AA==", "CQAAAYvP5WgT"):
        assert _time_of(other) == -1

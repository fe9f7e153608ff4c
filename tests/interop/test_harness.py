"""The harness itself: every kind of store, every kind of failure."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.interop import harness as module
from tests.interop.harness import Harness, HarnessError, HarnessUnavailableError, KafkaError, build

RECORD = {"topic": "input", "partition": 0, "offset": 7, "timestamp": 5, "headers": [["h", None]]}
TIMESTAMPED = {"value": "76", "timestamp": 5}
HEADERS = {**TIMESTAMPED, "headers": [["a", "31"], ["n", None]]}
AGGREGATION = {"value": "76", "headers": [["a", "31"], ["n", None]]}
WINDOW = {"retention_ms": 300_000, "window_size_ms": 1000}
SESSION = {"retention_ms": 300_000}

#: kind → the options to open it with, its value, the family that holds its rows.
KEY_VALUE = {
    "kv_plain": ("76", "default"),
    "kv_timestamped": (TIMESTAMPED, "keyValueWithTimestamp"),
    "kv_headers": (HEADERS, "keyValueWithTimestampAndHeaders"),
}
WINDOWS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "window_plain": ({}, "76", "default"),
    "window_timestamped": ({}, TIMESTAMPED, "keyValueWithTimestamp"),
    "window_headers": ({}, HEADERS, "keyValueWithTimestampAndHeaders"),
    "window_ordered_timestamped": ({"index": True}, TIMESTAMPED, "default"),
    "window_ordered_headers": ({"index": True}, HEADERS, "windowKeyValueWithHeaders"),
}
SESSIONS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "session_plain": ({}, "76", "default"),
    "session_headers": ({}, AGGREGATION, "sessionKeyValueWithHeaders"),
    "session_ordered_plain": ({"index": True}, "76", "default"),
}


def rows(kafka: Harness, directory: Path, family: str) -> list[tuple[str, str]]:
    return [(row["key"], row["value"]) for row in kafka.raw(directory, "s") if row["cf"] == family]


def offsets(kafka: Harness, directory: Path) -> dict[str, str]:
    return {bytes.fromhex(key).decode(): value for key, value in rows(kafka, directory, "offsets")}


def assert_committed(kafka: Harness, directory: Path) -> None:
    """The offset of the commit, the position of RECORD, and closed cleanly."""
    held = offsets(kafka, directory)
    assert held["interop-s-changelog-0"] == "000000000000002a"
    assert held["position"].startswith("000000000100000005" + b"input".hex())
    assert held["status"] == "0000000000000000"


def test_the_version_is_the_pinned_one(kafka: Harness) -> None:
    assert f"<kafka.version>{kafka.call('version')['kafka']}<" in (
        module.PROJECT / "pom.xml"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KEY_VALUE)
def test_key_value_stores(kafka: Harness, tmp_path: Path, kind: str) -> None:
    value, family = KEY_VALUE[kind]
    with kafka.open(kind, "s", tmp_path) as state:
        assert (state["committed_offset"], state["position"]) == (None, {})
        assert kafka.call("put_if_absent", key="6b", value=value, record=RECORD) is None
        assert kafka.call("put_all", entries=[["6c", value], ["6d", value]]) is None
        assert kafka.call("delete", key="6d") == value
        assert kafka.call("get", key="6b") == value
        assert kafka.call("reverse_range", **{"from": None, "to": None}) == [
            ["6c", value],
            ["6b", value],
        ]
        assert kafka.call("prefix_scan", prefix="6c") == [["6c", value]]
        assert kafka.call("commit", offset=42)["committed_offset"] == 42
    with kafka.open(kind, "s", tmp_path) as state:
        assert (state["committed_offset"], state["position"]) == (42, {"input": {"0": 7}})
        assert kafka.call("all") == [["6b", value], ["6c", value]]
    assert [key for key, _ in rows(kafka, tmp_path, family)] == ["6b", "6c"]
    assert_committed(kafka, tmp_path)


def test_versioned_stores(kafka: Harness, tmp_path: Path) -> None:
    options = {"history_retention_ms": 1000, "segment_interval_ms": 100}
    with kafka.open("versioned", "s", tmp_path, **options):
        for value, timestamp in (("61", 10), ("62", 150)):
            assert kafka.call("put", key="6b", value=value, timestamp=timestamp) == -1
        assert kafka.call("get_as_of", key="6b", as_of=149)["value"] == "61"
        assert kafka.call("delete", key="6b", timestamp=200)["value"] == "62"
        assert kafka.call("get", key="6b") is None
        assert kafka.call("query_versions", key="6b", **{"from": 0, "to": 300, "order": "asc"}) == [
            {"value": "61", "timestamp": 10, "valid_to": 150},
            {"value": "62", "timestamp": 150, "valid_to": 200},
        ]
        kafka.call("commit", offset=42)
    assert len(rows(kafka, tmp_path, "default")) == 2


@pytest.mark.parametrize("kind", WINDOWS)
def test_window_stores(kafka: Harness, tmp_path: Path, kind: str) -> None:
    options, value, family = WINDOWS[kind]
    window = [{"key": "6b", "start": 10, "end": 1010}, value]
    with kafka.open(kind, "s", tmp_path, **WINDOW, **options):
        kafka.call("put", key="6b", value=value, window_start=10, record=RECORD)
        assert kafka.call("fetch_one", key="6b", time=10) == value
        assert kafka.call("fetch", key="6b", **{"from": 0, "to": 99}) == [[10, value]]
        assert kafka.call("backward_fetch_all", **{"from": 0, "to": 99}) == [window]
        kafka.call("commit", offset=42)
    with kafka.open(kind, "s", tmp_path, **WINDOW, **options) as state:
        assert state["committed_offset"] == 42
        assert kafka.call("all") == [window]
    assert len(rows(kafka, tmp_path, family)) == 1 + bool(options)
    assert (tmp_path / "s" / "s.0").is_dir()
    assert_committed(kafka, tmp_path)


def test_a_window_store_keeps_duplicates_and_the_segment_interval_asked_for(
    kafka: Harness, tmp_path: Path
) -> None:
    options = {**WINDOW, "retain_duplicates": True, "segment_interval_ms": 50}
    with kafka.open("window_plain", "s", tmp_path, **options):
        for start in (10, 10, 60):
            kafka.call("put", key="6b", value="76", window_start=start)
        assert len(kafka.call("all")) == 3
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["s.0", "s.50"]


@pytest.mark.parametrize("kind", SESSIONS)
def test_session_stores(kafka: Harness, tmp_path: Path, kind: str) -> None:
    options, value, family = SESSIONS[kind]
    session = [{"key": "6b", "start": 5, "end": 20}, value]
    with kafka.open(kind, "s", tmp_path, **SESSION, **options):
        kafka.call("put", key="6b", value=value, start=5, end=20, record=RECORD)
        kafka.call("put", key="6b", value=value, start=30, end=40, record=RECORD)
        kafka.call("remove", key="6b", start=30, end=40)
        assert kafka.call("fetch_session", key="6b", start=5, end=20) == value
        assert kafka.call("find_sessions", key="6b", earliest_end=20, latest_start=5) == [session]
        kafka.call("commit", offset=42)
    with kafka.open(kind, "s", tmp_path, **SESSION, **options) as state:
        assert state["committed_offset"] == 42
        assert kafka.call("fetch_range", key_from=None, key_to=None) == [session]
    assert len(rows(kafka, tmp_path, family)) == 1 + bool(options)
    assert_committed(kafka, tmp_path)


def test_the_time_ordered_session_store_with_headers_loses_them(
    kafka: Harness, tmp_path: Path
) -> None:
    """A defect of the release, held so that a release without it is noticed."""
    with kafka.open("session_ordered_headers", "s", tmp_path, **SESSION, index=True):
        kafka.call("put", key="6b", value=AGGREGATION, start=5, end=20)
        assert kafka.call("fetch", key="6b")[0][1] == {"value": "76", "headers": []}
    stored = [value for _, value in rows(kafka, tmp_path, "sessionKeyValueWithHeaders")]
    assert sorted(stored) == ["", "76"]


def test_the_changelog_gets_the_tombstones_of_the_record(kafka: Harness, tmp_path: Path) -> None:
    with kafka.open("kv_headers", "s", tmp_path, logging=True):
        kafka.call("put", key="6b", value=HEADERS)
        kafka.call("delete", key="6b", record=RECORD)
        assert kafka.call("changelog") == [
            {"key": "6b", "value": "76", "timestamp": 5, "headers": HEADERS["headers"]},
            {"key": "6b", "value": None, "timestamp": 5, "headers": RECORD["headers"]},
        ]


def test_a_cache_keeps_rows_back_until_a_flush(kafka: Harness, tmp_path: Path) -> None:
    with kafka.open("kv_headers", "s", tmp_path, logging=True, caching=True):
        kafka.call("put", key="6b", value=HEADERS, record=RECORD)
        assert kafka.call("changelog") == []
        kafka.call("flush")
        assert len(kafka.call("changelog")) == 1


def test_a_commit_with_no_offset_known_writes_the_sentinel(kafka: Harness, tmp_path: Path) -> None:
    with kafka.open("kv_plain", "s", tmp_path):
        assert kafka.call("commit")["committed_offset"] == -4


def test_a_store_without_a_changelog_loses_its_offsets_at_a_commit(
    kafka: Harness, tmp_path: Path
) -> None:
    """Kafka clears the whole family then, save for the status, and writes the position again."""
    with kafka.open("kv_plain", "s", tmp_path):
        kafka.call("commit", offset=42)
    with kafka.open("kv_plain", "s", tmp_path, changelog=None) as state:
        assert state["committed_offset"] is None
        kafka.call("commit")
    assert offsets(kafka, tmp_path).keys() == {"position", "status"}


def test_checkpoint_and_position_files_are_taken_over(kafka: Harness, tmp_path: Path) -> None:
    (tmp_path / ".checkpoint").write_text("0\n1\ninterop-s-changelog 0 77\n")
    (tmp_path / "s.position").write_text("0\n1\ninput 0 5\n")
    with kafka.open("kv_plain", "s", tmp_path) as state:
        assert state["committed_offset"] == 77
        assert state["position"] == {"input": {"0": 5}}
    assert not (tmp_path / ".checkpoint").exists()


def test_exactly_once_refuses_a_directory_without_offsets(kafka: Harness, tmp_path: Path) -> None:
    with kafka.open("kv_plain", "s", tmp_path):
        kafka.call("put", key="6b", value="76")
    with (
        pytest.raises(KafkaError, match="Tasks \\[0_0\\] are corrupted") as caught,
        kafka.open("kv_plain", "s", tmp_path, exactly_once=True),
    ):
        pass
    assert caught.value.name == "TaskCorruptedException"


def test_a_downgrade_is_refused_and_leaves_nothing_open(kafka: Harness, tmp_path: Path) -> None:
    with kafka.open("kv_headers", "s", tmp_path):
        pass
    with (
        pytest.raises(KafkaError, match="headers-aware store and cannot be opened"),
        kafka.open("kv_timestamped", "s", tmp_path),
    ):
        pass
    with kafka.open("kv_headers", "s", tmp_path):
        pass


def test_what_kafka_throws_is_raised_and_the_store_stays_open(
    kafka: Harness, tmp_path: Path
) -> None:
    with kafka.open("kv_plain", "s", tmp_path):
        with pytest.raises(KafkaError, match="key cannot be null") as caught:
            kafka.call("get", key=None)
        assert caught.value.name == "NullPointerException"
        assert kafka.send({"op": "get", "key": None})["result"] == {
            "exception": "java.lang.NullPointerException",
            "message": "key cannot be null",
        }
        assert kafka.call("all") == []


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"op": "get", "key": "6b"}, "no store is open"),
        ({"op": "open", "kind": "nope", "name": "s", "dir": "."}, "no kind of store 'nope'"),
        ({"op": "codec", "kind": "nope", "key": "6b"}, "no vector of kind 'nope'"),
        ({"op": "codec", "kind": "murmur2"}, "field 'key' is missing"),
        ({"op": "codec", "kind": "murmur2", "key": "6b", "x": 1}, "field 'x' means nothing"),
        ({"kind": "murmur2"}, "field 'op' is missing"),
    ],
)
def test_a_request_that_means_nothing_is_refused(
    kafka: Harness, request_: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(HarnessError, match=complaint):
        kafka.send(request_)
    assert kafka.call("codec", kind="murmur2", key="") == {"hash": 275646681, "positive": 275646681}


def test_a_jvm_that_ended_is_reported_with_what_it_said(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not on the PATH")
    harness = Harness(str(tmp_path))
    with pytest.raises(HarnessError, match=r"(?s)the JVM ended with 1 .*kstore\.interop\.Main"):
        harness.call("version")
    harness.close()


def test_nothing_is_built_twice(
    classpath: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Path(classpath.partition(":")[0]).parents[1]
    monkeypatch.setattr(module, "maven", lambda *_: pytest.fail("Maven ran again"))
    assert build(cache) == classpath


JAVA = "echo 'openjdk version \"21\"' >&2"


def tool(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ({}, "java is not on the PATH"),
        ({"java": "echo 'openjdk version \"11.0.2\"' >&2"}, "java 17 or newer is needed"),
        ({"java": JAVA}, "javac is not on the PATH"),
        ({"java": JAVA, "javac": ""}, "mvn is not on the PATH"),
        (
            {
                "java": JAVA,
                "javac": "",
                "mvn": "echo 'Could not transfer artifact x: Unknown host'; exit 1",
            },
            "Maven cannot reach its repository: Could not transfer artifact x",
        ),
    ],
)
def test_a_machine_that_cannot_run_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, str], reason: str
) -> None:
    for name, script in tools.items():
        tool(tmp_path, name, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessUnavailableError, match=reason):
        build(tmp_path / "cache")


def test_a_source_that_does_not_compile_is_a_failure_and_no_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, "java", JAVA)
    tool(tmp_path, "javac", "")
    tool(tmp_path, "mvn", "echo '[ERROR] cannot find symbol'; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(tmp_path / "cache")
    assert "cannot find symbol" in "".join(caught.value.__notes__)

"""The release against the golden data, which was recorded from Kafka's trunk.

Whatever differs is a difference between the two, and this is where it shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.harness import Harness
from tests.support import golden

KINDS = {
    "kv_rocksdb_plain": "kv_plain",
    "kv_rocksdb_headers": "kv_headers",
    "versioned_kv": "versioned",
    "window_rocksdb_plain": "window_plain",
    "window_rocksdb_headers": "window_headers",
    "session_rocksdb_plain": "session_plain",
}
UPGRADED = {
    "kv_half_migrated_timestamped_to_headers": "kv_headers",
    "window_half_migrated_timestamped_to_headers": "window_headers",
}
DIRECTORIES = sorted(
    path.name.partition(".")[0] for path in (golden.GOLDEN / "dirs").glob("*.tar.gz")
)
OPTIONS = (
    "history_retention_ms",
    "retention_ms",
    "window_size_ms",
    "segment_interval_ms",
    "retain_duplicates",
)
#: What the harness is given of a vector; the rest is what it must answer.
INPUTS = {
    "varint": ("value",),
    "unsigned_varint": ("value",),
    "varlong": ("value",),
    "headers": ("headers",),
    "value_timestamp_headers": ("value", "timestamp", "headers"),
    "aggregation_headers": ("value", "headers"),
    "value_and_timestamp": ("value", "timestamp"),
    "convert_to_header_format": ("input",),
    "convert_from_plain_to_header_format": ("input",),
    "window_key": ("key", "timestamp", "seqnum"),
    "window_key_changelog": ("key", "start"),
    "prefixed_window_key_time_first": ("key", "timestamp", "seqnum"),
    "prefixed_window_key_key_first": ("key", "timestamp", "seqnum"),
    "session_key": ("key", "start", "end"),
    "prefixed_session_key_time_first": ("key", "start", "end"),
    "prefixed_session_key_key_first": ("key", "start", "end"),
    "key_schema_range": ("schema", "key", "time"),
    "murmur2": ("key",),
    "position": ("position",),
    "versioned_latest_value": ("timestamp", "value"),
    "restore_convert_session_headers": ("headers", "value"),
    "restore_convert_kv_headers": ("headers", "timestamp", "value"),
}


def options(config: dict[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in OPTIONS if name in config}


@pytest.mark.parametrize("name", golden.traces(""))
def test_every_operation_of_a_trace_gives_what_trunk_gave(
    kafka: Harness, tmp_path: Path, name: str
) -> None:
    config, operations = golden.trace(name)
    with kafka.open(KINDS[config["store"]], "s", tmp_path, **options(config)):
        for line in operations:
            request = {k: v for k, v in line.items() if k not in ("result", "kafka_result")}
            answered = kafka.send(request)["result"]
            assert answered == line.get("kafka_result", line["result"]), line


@pytest.mark.parametrize("kind", INPUTS)
def test_every_vector_comes_out_the_same(kafka: Harness, kind: str) -> None:
    compared = 0
    for line in golden.lines(golden.GOLDEN / "codec.jsonl"):
        if line["kind"] == kind:
            inputs = {name: line[name] for name in INPUTS[kind]}
            answer = kafka.call("codec", kind=kind, **inputs)
            shared = answer.keys() & line.keys()
            assert shared, line
            assert {name: answer[name] for name in shared} == {name: line[name] for name in shared}
            compared += 1
    assert compared


def test_malformed_bytes_fare_the_same(kafka: Harness) -> None:
    for line in golden.lines(golden.GOLDEN / "codec.jsonl"):
        if line["kind"] == "malformed" and line["target"] != "record_batch_v2":
            asked = {"op": "codec", "kind": "decode", "target": line["target"]}
            answer = kafka.send({**asked, "input": line["input"]})["result"]
            if line["outcome"] == "ok":
                assert answer == line["result"], line
            else:
                assert answer == {"exception": line["exception"], "message": line["message"]}, line


@pytest.mark.parametrize("name", DIRECTORIES)
def test_the_release_opens_a_directory_of_trunk(kafka: Harness, tmp_path: Path, name: str) -> None:
    """The same rows, offset and position; and opening and closing it changes no row."""
    manifest = golden.manifest(name)
    directory = golden.unpack(name, tmp_path)
    kind = UPGRADED.get(name, name)
    assert kafka.raw(directory, name) == manifest["raw"]
    opened = kafka.open(
        kind, name, directory, application="peer-app", **options(manifest["meta"][0])
    )
    with opened as state:
        [before] = manifest["reopened_position"]
        assert state["committed_offset"] == before["committed_offset"]
        assert bool(state["position"]) == ("peer-topic" in before["position"])
        for line, found in zip(manifest["reopened"], reopened(kafka, kind, manifest), strict=True):
            assert {name: line[name] for name in found} == found
    assert kafka.raw(directory, name) == manifest["raw"]


def reopened(
    kafka: Harness, kind: str, manifest: dict[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Everything in the open store, as the manifest's `reopened` lines have it."""
    if kind == "versioned":
        return [versions(kafka, line["key"], line["as_of"]) for line in manifest["reopened"]]
    if kind.startswith("session"):
        rows = kafka.call("fetch_range", key_from=None, key_to=None)
    else:
        rows = kafka.call("all")
    return [{"key": key, "value": value} for key, value in rows]


def versions(kafka: Harness, key: str, as_of: int) -> dict[str, Any]:
    everything = {"from": None, "to": None, "order": "asc"}
    return {
        "key": key,
        "latest": kafka.call("get", key=key),
        "all_versions": kafka.call("query_versions", key=key, **everything),
        "as_of_minus_20000": kafka.call("get_as_of", key=key, as_of=as_of),
    }

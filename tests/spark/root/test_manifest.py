"""Manifests survive JSON, and what is no manifest is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from kstore_core.errors import FormatDowngradeError, InconsistentStateError, StateError
from kstore_core.spark.root.manifest import Manifest
from kstore_core.spark.root.offsets import Ahead
from tests.spark.root.manifests import manifest


def test_a_manifest_is_what_was_written() -> None:
    assert Manifest.from_json(manifest().to_json(), "here") == manifest()


def test_totals() -> None:
    assert (manifest().records, manifest().late, manifest().bytes) == (6, 1, 15)


def test_a_newer_layout_is_refused() -> None:
    document = json.loads(manifest().to_json())
    document["format"] = 4
    with pytest.raises(StateError, match="layout 4, but this kstore reads only layouts up to 3"):
        Manifest.from_json(json.dumps(document), "here")


def test_only_files_of_earlier_attempts_need_the_second_layout() -> None:
    plain = manifest()
    document = json.loads(plain.to_json())
    assert document["format"] == 1
    assert not any("at" in file for file in document["shards"][0]["files"])
    shard = plain.shards[0]
    far = dataclasses.replace(shard.files[0], at="attempts/i/0-1/0_0/rocksdb/s/1.sst")
    moved = dataclasses.replace(
        plain, shards=(dataclasses.replace(shard, files=(far, shard.files[1])), plain.shards[1])
    )
    assert json.loads(moved.to_json())["format"] == 2
    assert Manifest.from_json(moved.to_json(), "here") == moved
    assert list(moved.places()) == [far.at, "attempts/j/0-7/0_0/x"]


def test_a_rescaled_store_needs_the_third_layout() -> None:
    plain = manifest()
    assert "ahead" not in plain.to_json()
    shard = dataclasses.replace(plain.shards[0], ahead=(Ahead("t", 1, 41, 4, 3),))
    ahead = dataclasses.replace(plain, shards=(shard, plain.shards[1]))
    for later in (ahead, dataclasses.replace(plain, mode="rescale")):
        assert json.loads(later.to_json())["format"] == 3
        assert Manifest.from_json(later.to_json(), "here") == later
    for field, value, message in (
        ("modulus", 0, r"ahead\[0\].modulus is 0, but must be an int of 1 or more"),
        ("residue", -1, r"ahead\[0\].residue is -1"),
        ("topic", None, r"ahead\[0\].topic is None"),
    ):
        document = json.loads(ahead.to_json())
        document["shards"][0]["ahead"][0][field] = value
        with pytest.raises(InconsistentStateError, match=message):
            Manifest.from_json(json.dumps(document), "here")
    document["shards"][0]["ahead"] = {}
    with pytest.raises(InconsistentStateError, match=r"shards\[0\].ahead is {}, but .* a list"):
        Manifest.from_json(json.dumps(document), "here")


def test_a_field_that_a_later_kstore_adds_is_passed_over() -> None:
    document = json.loads(manifest().to_json())
    document["extra"] = document["shards"][0]["extra"] = 1
    document["shards"][0]["files"][0]["extra"] = 1
    assert Manifest.from_json(json.dumps(document), "here") == manifest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1}',
        '{"format": "1"}',
        "\x00",
        "3",
        pytest.param("[" * 9**5, id="deep"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(StateError, match=r"here is not a valid manifest: .*version="):
        Manifest.from_json(text, "here")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 0, "version is 0, but must be an int of 1 or more"),
        ("version", True, "version is True"),
        ("version", 4, "version is 4, but must be 3 as in the file's name"),
        ("created_ms", -1, "created_ms is -1"),
        ("job", "../j", "job is"),
        ("mode", "merge", "mode is 'merge', but must be 'append', 'overwrite' or 'rescale'"),
        ("engine", None, "engine is None, but must be the name of an engine"),
        ("engine", "", "engine is ''"),
        ("partitions", 0, "partitions is 0"),
        ("partitions", 3, r"shards is \[0, 1\], but must be the shards 0 to 2 in order, each once"),
        ("partitions", 1, "the shards 0 to 0"),
        ("partitions", 10**12, "the shards 0 to 999999999999"),
        ("spec", "s", "spec is 's', but must be a store's description"),
        ("spec", {}, "spec: the spec stored .*damaged"),
        ("shards", None, "shards is None, but must be a list"),
        ("shards", [None, None], r"shards\[0\] is None, but must be an object"),
        ("shards.0.shard", 1, r"shards is \[1, 1\]"),
        ("shards.0.shard", -1, r"shards\[0\].shard is -1"),
        (
            "shards.0.path",
            "/etc",
            r"shards\[0\].path is '/etc', but must be a path inside",
        ),
        ("shards.0.path", "a/../../b", "path is"),
        ("shards.0.path", None, "must be a path inside the root"),
        ("shards.1.path", "attempts/j/1-1/0_1", "must be null, because there are no files"),
        ("shards.0.rows", -1, "rows is -1, but must be an int of 0 or more"),
        ("shards.0.records", 1.5, "records is 1.5"),
        ("shards.0.late", None, "late is None"),
        ("shards.0.replayed", -1, "replayed is -1"),
        ("shards.0.stream_time", -2, "stream_time is -2, but must be an int of -1 or more"),
        ("shards.0.files.0.path", "../x", r"shards\[0\].files\[0\].path is '../x'"),
        ("shards.0.files.0.path", "a//b", "must be a path inside the shard"),
        ("shards.0.files.0.path", "x", "must be files with distinct paths"),
        ("shards.0.files.0.bytes", -1, r"files\[0\].bytes is -1"),
        ("shards.0.files.1.sha256", "ab", "must be 64 hexadecimal digits"),
        ("shards.0.files.1.at", "../../x", "at is '../../x', but must be a path inside the root"),
        ("shards.0.offsets.0.partition", -1, r"offsets\[0\].partition is -1"),
        ("shards.0.offsets.0.offset", "4", "offset is '4'"),
        ("shards.0.offsets.0.topic", None, "topic is None"),
    ],
)
def test_a_field_that_cannot_be_is_named(field: str, value: Any, message: str) -> None:
    document = json.loads(manifest().to_json())
    *path, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    inner = document
    for part in path:
        inner = inner[part]
    inner[last] = value
    with pytest.raises(StateError, match=f"here is not a valid manifest: .*{message}"):
        Manifest.from_json(json.dumps(document), "here", 3)


@pytest.mark.parametrize("field", ["engine", "shards", "spec"])
def test_a_missing_field_is_named(field: str) -> None:
    document = json.loads(manifest().to_json())
    del document[field]
    with pytest.raises(StateError, match=f"here is not a valid manifest: .*{field}"):
        Manifest.from_json(json.dumps(document), "here")


def test_a_description_of_a_later_kstore_is_refused() -> None:
    document = json.loads(manifest().to_json())
    document["spec"]["version"] = 99
    with pytest.raises(FormatDowngradeError, match=r"here: .*has version 99"):
        Manifest.from_json(json.dumps(document), "here")

"""Manifests survive JSON, and what is no manifest is refused."""

from __future__ import annotations

import json

import pytest

from kstore_core.errors import StateError
from kstore_core.spark.manifest import File, Manifest, Offset, Shard


def manifest(version: int = 3) -> Manifest:
    shard = Shard(
        0,
        "attempts/j/0-7/0_0",
        (File("rocksdb/s/1.sst", 10, "ab"), File("x", 5, "cd")),
        rows=4,
        records=6,
        late=1,
        replayed=1,
        stream_time=99,
        offsets=(Offset("t", 0, 41), Offset("t", 4, 2)),
    )
    return Manifest(
        version,
        1_700_000_000_000,
        "j",
        "append",
        "rocksdb",
        2,
        {"name": "s"},
        (shard, Shard(1)),
        "k",
    )


def test_a_manifest_is_what_was_written() -> None:
    assert Manifest.from_json(manifest().to_json(), "here") == manifest()


def test_totals() -> None:
    assert (manifest().records, manifest().late, manifest().bytes) == (6, 1, 15)


def test_a_newer_layout_is_refused() -> None:
    document = json.loads(manifest().to_json())
    document["format"] = 2
    with pytest.raises(StateError, match="layout 2; this kstore reads up to 1"):
        Manifest.from_json(json.dumps(document), "here")


def test_a_field_that_a_later_kstore_adds_is_passed_over() -> None:
    document = json.loads(manifest().to_json())
    document["extra"] = document["shards"][0]["extra"] = 1
    assert Manifest.from_json(json.dumps(document), "here") == manifest()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": "1"}', "\x00"])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(StateError, match=r"here is not a manifest .*version="):
        Manifest.from_json(text, "here")

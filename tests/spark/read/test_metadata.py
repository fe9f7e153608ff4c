"""What manifests say, as tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kstore_core import serdes, stores
from kstore_core.errors import SpecError, StateError
from kstore_core.spark.read.metadata import metadata_table, plan_metadata
from kstore_core.spark.root.finding import roots_at
from kstore_core.spark.root.root import Root
from tests.spark.support.by_hand import publish, rows_of

SPEC = stores.timestamped_key_value("orders", key=serdes.UTF8)
WINDOWS = stores.window("sums", 1000, 10, segment_interval_ms=100)


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """A directory with two roots, one of two versions; the shard 1 of both is empty."""

    def fill(store: Any, shard: int) -> None:
        if shard == 0:
            store.put("a", b"1", timestamp=5)

    publish(tmp_path / "o", SPEC, fill)
    publish(tmp_path / "o", SPEC, fill)
    publish(tmp_path / "w", WINDOWS, lambda store, shard: store.put(b"a", b"1", window_start=0))
    (tmp_path / "else").mkdir()
    return tmp_path


def table(path: Path, what: str, version: int | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = metadata_table(
        roots_at(str(path), None, {}), what, version
    ).to_pylist()
    return found


def test_the_stores_below_a_directory(roots: Path) -> None:
    orders, sums = table(roots, "stores")
    newest = Root.at(roots / "o").load()
    assert orders == {
        "store": "orders",
        "version": 2,
        "created": datetime.fromtimestamp(newest.created_ms / 1000, UTC),
        "engine": "rocksdb",
        "partitions": 2,
        "rows": 7,
        "bytes": newest.bytes,
        "root": str(roots / "o"),
        "shape": "key_value",
        "format": "timestamped",
        "key": "utf8",
        "value": "bytes",
        "retention_ms": None,
        "window_size_ms": None,
        "versions": 2,
        "stream_time": datetime.fromtimestamp(0.099, UTC),
    }
    assert (sums["store"], sums["retention_ms"], sums["window_size_ms"]) == ("sums", 1000, 10)
    assert table(roots / "o", "stores", 1)[0]["version"] == 1


def test_the_versions_of_a_store(roots: Path) -> None:
    rows = table(roots / "o", "versions")
    assert [(row["version"], row["mode"], row["written_by"]) for row in rows] == [
        (1, "append", "by hand"),
        (2, "append", "by hand"),
    ]
    assert table(roots / "o", "versions", 2) == rows[1:]


def test_shards_offsets_and_files(roots: Path) -> None:
    manifest = Root.at(roots / "o").load()
    written, empty = table(roots / "o", "shards")
    assert (written["shard"], written["rows"], written["bytes"]) == (0, 7, manifest.bytes)
    assert (empty["shard"], empty["path"], empty["stream_time"]) == (1, None, None)
    assert table(roots / "o", "offsets") == [
        {"store": "orders", "version": 2, "shard": 0, "topic": "log", "partition": 0, "offset": 41}
    ]
    files = table(roots / "o", "files")
    assert len(files) == written["files"]
    assert sum(file["bytes"] for file in files) == written["bytes"]
    for file in files:
        assert (roots / "o" / file["path"]).stat().st_size == file["bytes"]


def test_a_plan_gives_the_table(roots: Path) -> None:
    plan = plan_metadata(roots_at(str(roots / "o"), None, {}), "shards", None)
    assert rows_of(plan) == table(roots / "o", "shards")


def test_what_is_not_there(roots: Path) -> None:
    with pytest.raises(SpecError, match=r"metadata must be 'stores', 'shards', .* not 'tables'"):
        table(roots, "tables")
    with pytest.raises(StateError, match="has no version 7"):
        table(roots / "o", "shards", 7)
    with pytest.raises(StateError, match=r"else has no store: .* nor in a directory below"):
        table(roots / "else", "stores")


def test_a_time_of_the_far_future_is_shown_where_it_is_looked_for(root: Path) -> None:
    first = publish(root, SPEC, lambda store, _: store.put("a", b"1", timestamp=5), partitions=1)
    shard = replace(first.shards[0], stream_time=2**62)
    Root.at(root).publish(replace(first, version=2, shards=(shard,)))
    for what in ("stores", "shards"):
        (time,) = metadata_table([Root.at(root)], what)["stream_time"].cast(pa.int64()).to_pylist()
        assert time == 2**63 - 1

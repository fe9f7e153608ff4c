"""The task that builds a new shard, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from kstore_core import stores
from kstore_core.discovery.registry import make_engine
from kstore_core.maintenance.migrate.contents import opened
from kstore_core.spark.rescale.building import BuildTask, LiveFolder
from kstore_core.spark.rescale.reading import ABOUT, ROWS
from kstore_core.spark.root.manifest import Shard
from kstore_core.spec import StoredSpec


def test_a_key_value_shard_gets_the_greatest_stream_time(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    abouts = [
        json.dumps({"stream_time": time, "position": {}, "epochs": {}}).encode() for time in (3, 9)
    ]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([0, 0], pa.int32()),
            pa.array([ABOUT, ABOUT], pa.int64()),
            pa.array([b"0", b"1"], pa.binary()),
            pa.array(abouts, pa.binary()),
        ],
        schema=ROWS,
    )
    task = BuildTask(LiveFolder(tmp_path), StoredSpec.of(spec), "lmdb", (Shard(0),))
    task.build(0, 1, iter([batch]))
    with opened(make_engine("lmdb"), tmp_path / "0_0", spec) as contents:
        assert contents.record.stream_time == 9

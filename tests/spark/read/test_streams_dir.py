"""The state directories of a Kafka Streams application: those that Kafka itself has written."""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kstore_core import open_state, serdes, stores
from kstore_core.errors import FormatError, SpecError, StateError
from tests.spark.support.by_hand import rows_of
from tests.spark.support.plans import plan_streams_dir
from tests.support.golden import manifest, unhex, unhex_headers, unpack

KV = stores.timestamped_key_value_with_headers("kv_headers")
VERSIONED = stores.versioned_key_value("versioned", 60_000, 10_000)
WINDOWS = stores.timestamped_window_with_headers("window_headers", 300_000, 10_000, False, 150_000)
SESSIONS = stores.session_with_headers("session_headers", 300_000, 150_000)
MILLIS = {"timestamps": "millis"}


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """An application of two sub-topologies: two tasks of the one, one of the other."""
    home = tmp_path / "app"
    home.mkdir()
    for task, name in [("0_0", "kv_headers"), ("0_1", "kv_headers"), ("1_0", "versioned")]:
        shutil.move(unpack(name, tmp_path / "unpacked"), home / task)
    (home / "kafka-streams-process-metadata").touch()
    (home / "not_a_task").mkdir()
    return home


def golden_rows(name: str) -> list[dict[str, Any]]:
    """What Kafka read of its own directory, as the columns of a read."""
    rows = []
    for line in manifest(name)["reopened"]:
        nested, place = line["value"], line["key"]
        row = {"key": unhex(place["key"] if isinstance(place, dict) else place)}
        if isinstance(place, dict):
            shape = name.split("_")[0]
            row |= {f"{shape}_start": place["start"], f"{shape}_end": place["end"]}
        row["value"] = unhex(nested["value"])
        if "timestamp" in nested:
            row["timestamp"] = nested["timestamp"]
        pairs = unhex_headers(nested["headers"])
        rows.append(row | {"headers": [{"key": key, "value": value} for key, value in pairs]})
    return rows


def test_all_tasks_are_one_table(application: Path) -> None:
    rows = rows_of(plan_streams_dir(str(application), KV, **MILLIS))
    golden = golden_rows("kv_headers")
    assert rows == [
        {**row, "task": f"0_{number}", "partition": number} for number in (0, 1) for row in golden
    ]


def test_versions(application: Path) -> None:
    plan = plan_streams_dir(str(application), VERSIONED, history=True, **MILLIS)
    found: dict[bytes, list[Any]] = {}
    for row in sorted(rows_of(plan), key=lambda row: -row["timestamp"]):
        assert (row["task"], row["partition"]) == ("1_0", 0)
        found.setdefault(row["key"], []).append((row["value"], row["timestamp"], row["valid_to"]))
    assert found == {
        unhex(line["key"]): [
            (unhex(v["value"]), v["timestamp"], v["valid_to"])
            for v in sorted(line["all_versions"], key=lambda v: -v["timestamp"])
        ]
        for line in manifest("versioned")["content"]
        if line["all_versions"]
    }


@pytest.mark.parametrize("spec", [WINDOWS, SESSIONS], ids=lambda spec: spec.shape)
def test_windows_and_sessions(tmp_path: Path, spec: Any) -> None:
    shutil.move(unpack(spec.name, tmp_path / "unpacked"), tmp_path / "app" / "0_0")
    rows = rows_of(plan_streams_dir(str(tmp_path / "app"), spec, **MILLIS))
    wanted = [{**row, "task": "0_0", "partition": 0} for row in golden_rows(spec.name)]
    assert rows == wanted
    key = wanted[0]["key"]
    some = rows_of(plan_streams_dir(str(tmp_path / "app"), spec, keys=[key], **MILLIS))
    assert some == [row for row in wanted if row["key"] == key]


def test_nothing_is_written(application: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in application.rglob("*")}
    assert rows_of(plan_streams_dir(str(application), KV))
    assert {path: path.stat().st_mtime_ns for path in application.rglob("*")} == before


def test_beside_the_application(application: Path) -> None:
    """Each task is read as it was committed when its part began."""
    plan = plan_streams_dir(str(application), KV, partitions=[1], columns=["key", "value"])
    before = rows_of(plan)
    with open_state(application / "0_1") as state:
        state.open(KV).put(b"zzz", b"new", timestamp=5)
        assert rows_of(plan) == before
        state.commit()
        assert rows_of(plan) == [*before, {"key": b"zzz", "value": b"new"}]


def test_named_topologies_and_other_engines(tmp_path: Path) -> None:
    spec = stores.key_value("s")
    for task, engine in [("part__0_0", "rocksdb"), ("part__0_1", "lmdb")]:
        with open_state(tmp_path / "app" / task, engine=engine) as state:
            state.open(spec).put(b"k", engine.encode())
    rows = rows_of(plan_streams_dir((tmp_path / "app").as_uri(), spec))
    assert [tuple(row.values()) for row in rows] == [
        (b"k", b"rocksdb", "part__0_0", 0),
        (b"k", b"lmdb", "part__0_1", 1),
    ]


def test_a_task_that_is_elsewhere_is_told(application: Path) -> None:
    (application / "0_1").rename(application / "0_3")
    with pytest.warns(UserWarning, match="no tasks of the store 'kv_headers' .* 1, 2. These"):
        plan = plan_streams_dir(str(application), KV)
    assert [part.columns["task"] for part in plan.parts] == ["0_0", "0_3"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = plan_streams_dir(str(application), KV, partitions=[3])
    assert [part.columns["task"] for part in plan.parts] == ["0_3"]
    with pytest.raises(
        StateError,
        match=r"no task .* for the partitions 1, 2; the directory has the tasks 0_0, 0_3",
    ):
        plan_streams_dir(str(application), KV, partitions=[0, 1, 2])


def test_a_task_without_the_store_is_told(application: Path) -> None:
    shutil.rmtree(application / "0_1" / "rocksdb")
    with pytest.raises(
        StateError, match="the store 'kv_headers' is missing in 0_1, but task 0_0 of the same"
    ):
        plan_streams_dir(str(application), KV)
    assert len(plan_streams_dir(str(application), KV, partitions=[0]).parts) == 1


def test_directories_that_are_none(application: Path) -> None:
    with pytest.raises(
        StateError, match=r"has a store 'x'; the tasks have these stores: kv_headers, versioned"
    ):
        plan_streams_dir(str(application), stores.key_value("x"))
    with pytest.raises(StateError, match="has no task directories such as 0_0"):
        plan_streams_dir(str(application / "0_0"), KV)
    with pytest.raises(StateError, match="has no task directories"):
        plan_streams_dir(str(application / "nothing"), KV)
    with pytest.raises(SpecError, match="'s3://bucket/app' is not a directory of a file system"):
        plan_streams_dir("s3://bucket/app", KV)


def test_serdes_that_did_not_write_it_are_told(application: Path) -> None:
    plan = plan_streams_dir(str(application), replace(KV, value=serdes.INT64))
    with pytest.raises(
        FormatError, match=r"serde 'int64' cannot read the values of .*serdes\.BYTES"
    ):
        rows_of(plan)

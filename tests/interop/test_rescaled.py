"""Task directories of Kafka Streams that kstore rescaled: the release opens them, with all rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kstore_core.codec import partition
from kstore_core.maintenance.rescale import rescale_tasks
from tests.interop.harness import Harness
from tests.maintenance.rescale.goldens import SPECS, application
from tests.support import golden

TASKS = 3
UPGRADED = {
    "kv_half_migrated_timestamped_to_headers": "kv_headers",
    "window_half_migrated_timestamped_to_headers": "window_headers",
}
OPTIONS = ("history_retention_ms", "retention_ms", "window_size_ms", "segment_interval_ms")


@pytest.mark.parametrize("name", SPECS)
def test_the_release_opens_the_new_tasks(kafka: Harness, tmp_path: Path, name: str) -> None:
    """Its answers are those of the one old task; a new task has no offset and no position."""
    source, _ = application(name, tmp_path)
    rescale_tasks(source, tmp_path / "new", partitions=TASKS, spec=replace(SPECS[name], name=name))
    manifest = golden.manifest(name)
    meta = manifest["meta"][0]
    options = {option: meta[option] for option in OPTIONS if option in meta}
    kind = UPGRADED.get(name, name)
    found: list[dict[str, Any]] = []
    for number in range(TASKS):
        task = tmp_path / "new" / f"0_{number}"
        with kafka.open(kind, name, task, application="peer-app", **options) as state:
            assert state["committed_offset"] is None
            assert not state["position"]
            found += rows_of(kafka, kind, number, manifest["reopened"])
    wanted = [{key: line[key] for key in found[0]} for line in manifest["reopened"]]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def rows_of(
    kafka: Harness, kind: str, number: int, lines: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of the open store; of a versioned store, the versions of the keys of this task."""
    if kind == "versioned":
        everything = {"from": None, "to": None, "order": "asc"}
        return [
            {
                "key": line["key"],
                "latest": kafka.call("get", key=line["key"]),
                "all_versions": kafka.call("query_versions", key=line["key"], **everything),
            }
            for line in lines
            if partition(bytes.fromhex(line["key"]), TASKS) == number
        ]
    in_sessions = kind.startswith("session")
    answered = (
        kafka.call("fetch_range", key_from=None, key_to=None) if in_sessions else kafka.call("all")
    )
    return [{"key": key, "value": value} for key, value in answered]

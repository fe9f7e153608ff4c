"""Task directories that Kafka Streams wrote, rescaled from 1 to 3 and back: the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstore_core import open_state
from kstore_core.errors import SpecError
from kstore_core.maintenance.rescale import rescale_tasks
from tests.maintenance.rescale.applications import rows, tasks_of
from tests.maintenance.rescale.goldens import SPECS, application
from tests.support.golden import manifest


@pytest.mark.parametrize("name", SPECS)
def test_the_rows_are_the_same(name: str, tmp_path: Path) -> None:
    source, spec = application(name, tmp_path)
    before = rows(source, spec, "rocksdb")
    (done,) = rescale_tasks(source, tmp_path / "new", partitions=3, spec=spec)
    assert done.rows == len(before) > 0
    assert rows(tmp_path / "new", spec, "rocksdb") == before
    rescale_tasks(tmp_path / "new", tmp_path / "back", partitions=1)
    assert rows(tmp_path / "back", spec, "rocksdb") == before
    assert rows(source, spec, "rocksdb") == before
    if "half_migrated" not in name:
        raw = {bytes.fromhex(r["key"]) for r in manifest(name)["raw"] if r["cf"] != "offsets"}
        assert {key for key, _ in before} == raw
    for task in tasks_of(tmp_path / "new"):
        with open_state(task, read_only=True) as state:
            assert state.offsets(name) == {}


def test_a_store_without_a_spec_needs_one(tmp_path: Path) -> None:
    source, _ = application("kv_headers", tmp_path)
    with pytest.raises(SpecError, match=r"the store 'kv_headers' in .*0_0 has no stored spec"):
        rescale_tasks(source, tmp_path / "new", partitions=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app", "unpacked"]

"""A disk that is full: the store is as it was, and nothing is left of the new one."""

from __future__ import annotations

import pytest

from tests.environment.mounts import on_a_small_disk

pytestmark = pytest.mark.usefixtures("left_sound")

PROGRAM = "__import__('tests.maintenance.migrate.full_disks', fromlist=['run']).run"


@pytest.mark.parametrize("engine", ["lmdb", "rocksdb"])
def test_there_is_room_for_one_store_only(tmp_path, engine):
    on_a_small_disk(tmp_path, f"{PROGRAM}({str(tmp_path)!r}, {engine!r})", size="64m")

"""The contents of a state of `map_state` in its present shards."""

from __future__ import annotations

from pathlib import Path

from kstore_core import open_state
from kstore_core.codec import partition
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.map_state.sharding import Sharding
from tests.spark.map_state.task_runs import TOTALS


def totals(root: Path) -> dict[str, int]:
    """The contents of all shards; each key is in the shard of its hash."""
    layout = LiveLayout.of(root, "totals")
    found = Sharding.of(layout)
    assert found is not None
    shards, held = found[1].partitions, {}
    for number in range(shards):
        place = layout.path / found[1].folder / f"0_{number}"
        with open_state(place, engine=found[1].engine, read_only=True) as state:
            for key, total in state.open(TOTALS).all():
                assert partition(key.encode(), shards) == number
                held[key] = total
    return held

"""Streams of every kind at once, each of which is held at a step and then killed with the others.

The name of a stream says what it does, where it has its root or its state, and a step of its own:
``rows-objects-put`` streams rows into a root on an object store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.spark.root.root import Root
from tests.spark.map_state.work import add_amounts, amounts_of, begin_totals, expected_totals
from tests.spark.stream.shard_epochs import Streamed, shards_are
from tests.spark.stream.work import shown
from tests.spark.support.held_streams import (
    LOG,
    SLICES,
    begin_stream,
    emitted_by,
    kills_of,
    plan,
    planned_epochs,
    run_held,
)
from tests.spark.support.logs import SPEC
from tests.spark.support.object_store import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

AMOUNTS = [[(f"k{(n + epoch) % 4}", n) for n in range(7)] for epoch in range(3)]


def named(kind: str, steps: Iterable[str]) -> list[str]:
    """The names of the streams of a kind, one for each step."""
    return [f"{kind}-{step}" for step in steps]


def step_of(name: str) -> str:
    """The step of the stream with a name."""
    return name.split("-")[2]


def plan_streams(scratch: Path, kills: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Prepare what is streamed, and the kills of each stream."""
    plan(scratch, kills)
    add_amounts(scratch / "amounts", AMOUNTS)


def run_streams(
    spark: SparkSession, scratch: str, names: Sequence[str], home: str, options: dict[str, Any]
) -> None:
    """Run the streams with these names, all at once. Those of objects have them in ``home``."""
    epochs, amounts = planned_epochs(spark, scratch), amounts_of(spark, Path(scratch, "amounts"))

    def begin(place: Path) -> StreamingQuery:
        kind, where, _ = place.name.split("-")
        root = f"{home}/{place.name}" if where == "objects" else place / "root"
        given = options if where == "objects" else None
        if kind == "totals":
            return begin_totals(amounts, place, root, given)
        return begin_stream(epochs, place, root, given)

    run_held(spark, scratch, names, begin)


def check_streams(scratch: Path, names: Sequence[str], bucket: Bucket) -> None:
    """Nobody is left to be killed, and each epoch was emitted, and every time the same.

    Each epoch of rows is in its root once, and has a version.
    """
    whole = Streamed(scratch / "whole", SPEC)
    rows = {n: shown(whole.epoch(n, records)) for n, records in enumerate(SLICES)}
    totals = {number: [list(row) for row in of_it] for number, of_it in expected_totals(AMOUNTS)}
    for place in (scratch / name for name in names):
        kind, where, _ = place.name.split("-")
        assert kills_of(place).left() == []
        wanted = rows if kind == "rows" else totals
        emitted = [json.loads(line) for line in emitted_by(place).read_text().splitlines()]
        assert {epoch for epoch, _ in emitted} == wanted.keys()
        for epoch, given in emitted:
            assert given == wanted[epoch]
        if kind == "rows":
            root = bucket.root(place.name) if where == "objects" else Root.at(place / "root")
            assert shards_are(Streamed(root, SPEC), LOG)
            assert root.versions() == [*range(1, len(SLICES) + 1)]

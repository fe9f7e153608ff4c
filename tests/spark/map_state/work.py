"""What the driver of a cluster is called to do with `map_state`, and a function that kills."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstore_core.spark import map_state
from kstore_core.spark.map_state import tasks as map_state_task
from kstore_core.spark.root.commits import ShardCommits
from tests.spark.map_state.task_runs import TOTALS, Model, running_total
from tests.spark.stream.work import Kills
from tests.spark.support.streams import AVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def kills_of(place: Path) -> Kills:
    """The kills of a stream that has this place."""
    return Kills(str(place / "kills"))


def lethal_total(place: str, key: str, rows: Any, store: Any) -> Iterator[tuple[str, int]]:
    """Running totals; may be killed when it has written them, and when they are committed.

    On an object store they are put after the local commit, where it may be killed once more.
    """
    yield from running_total(key, rows, store)
    kills = kills_of(Path(place))
    kills("written", None)
    commit = map_state_task.commit_epoch

    def committing(*given: Any, **named: Any) -> None:
        map_state_task.commit_epoch = commit
        map_state_task.commit_epoch(*given, **named)
        kills("committed", None)

    put = ShardCommits.put

    def putting(commits: ShardCommits, commit: Any) -> Any:
        ShardCommits.put = put  # type: ignore[method-assign]
        done = put(commits, commit)
        kills("put", None)
        return done

    map_state_task.commit_epoch = committing
    ShardCommits.put = putting  # type: ignore[method-assign]


def running_totals(
    spark: SparkSession,
    scratch: str,
    epochs: Sequence[Sequence[tuple[str, int]]],
    root: str | None = None,
    options: dict[str, Any] | None = None,
) -> list[tuple[int, list[tuple[str, int]]]]:
    """What `map_state` gives of a stream of these, epoch by epoch."""
    place = Path(scratch)
    source = place / "in"
    source.mkdir(exist_ok=True)
    for number, rows in enumerate(epochs):
        lines = [json.dumps({"key": key, "amount": amount}) for key, amount in rows]
        file = source / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number,) * 2)
    kills, given = kills_of(place), []

    def emit(df: DataFrame, epoch: int) -> None:
        given.append((epoch, sorted((row.key, row.total) for row in df.collect())))
        kills.arm()

    rows = spark.readStream.schema("key string, amount long").option("maxFilesPerTrigger", 1)
    out = map_state(
        rows.json(str(source)),
        partial(lethal_total, scratch),
        TOTALS,
        root=root or place / "state",
        storage_options=options,
        schema="key string, total long",
        partitions=3,
    )
    kills.arm()
    writer = out.writeStream.foreachBatch(emit).trigger(**AVAILABLE)
    writer.option("checkpointLocation", str(place / "checkpoint")).start().awaitTermination()
    return given


def expected_totals(
    epochs: Sequence[Sequence[tuple[str, int]]],
) -> list[tuple[int, list[tuple[str, int]]]]:
    """What `running_totals` gives when each epoch counts once."""
    model = Model()
    return [(number, sorted(model.put(rows))) for number, rows in enumerate(epochs)]

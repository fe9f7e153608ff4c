"""A stream with `map_state` whose function and whose commits are killed."""

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
from tests.spark.support.held_streams import kills_of, note
from tests.spark.support.streams import AVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


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


def add_amounts(source: Path, epochs: Sequence[Sequence[tuple[str, int]]]) -> None:
    """Write rows of a key and an amount, a file an epoch."""
    source.mkdir()
    for number, rows in enumerate(epochs):
        lines = [json.dumps({"key": key, "amount": amount}) for key, amount in rows]
        file = source / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (1_700_000_000 + number,) * 2)


def amounts_of(spark: SparkSession, source: Path) -> DataFrame:
    """The stream of these files, one an epoch."""
    rows = spark.readStream.schema("key string, amount long").option("maxFilesPerTrigger", 1)
    return rows.json(str(source))


def begin_totals(
    amounts: DataFrame, place: Path, root: Path | str, options: dict[str, Any] | None
) -> StreamingQuery:
    """Begin to keep totals in a state."""

    def emit(df: DataFrame, epoch: int) -> None:
        note(place, epoch, sorted((row.key, row.total) for row in df.collect()))

    out = map_state(
        amounts,
        partial(lethal_total, str(place)),
        TOTALS,
        root=root,
        storage_options=options,
        schema="key string, total long",
        partitions=3,
    )
    kills_of(place).arm()
    writer = out.writeStream.foreachBatch(emit).trigger(**AVAILABLE)
    return writer.option("checkpointLocation", str(place / "checkpoint")).start()


def expected_totals(
    epochs: Sequence[Sequence[tuple[str, int]]],
) -> list[tuple[int, list[tuple[str, int]]]]:
    """What a stream of these emits when each epoch counts once."""
    model = Model()
    return [(number, sorted(model.put(rows))) for number, rows in enumerate(epochs)]

"""States of `map_state` that are filled and rescaled, and the contents of their shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstore_core import open_state
from kstore_core.codec import partition
from kstore_core.spark import map_state
from kstore_core.spark.live.layout import LiveLayout
from kstore_core.spark.map_state.sharding import Sharding
from tests.spark.map_state.task_runs import TOTALS, running_total
from tests.spark.support.streams import AVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AMOUNTS = [(f"k{number}", number) for number in range(40)]


def run(
    spark: SparkSession, root: Path | str, rows: list[tuple[str, int]], **given: Any
) -> dict[str, int]:
    """One batch run, and its output."""
    df = spark.createDataFrame(rows, "key string, amount long")
    schema = "key string, total long"
    result = map_state(df, running_total, TOTALS, root=root, schema=schema, **given)
    return {row.key: row.total for row in result.collect()}


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


class Streamed:
    """A stream of running totals, which runs until it has read all files that have arrived.

    Attributes
    ----------
    given : list
        The number and the sorted rows of each micro-batch that was emitted.
    """

    def __init__(self, spark: SparkSession, scratch: Path, **options: Any) -> None:
        self.given: list[tuple[int, list[tuple[Any, ...]]]] = []
        self._spark, self._options = spark, options
        self._source, self._checkpoint = scratch / "in", str(scratch / "checkpoint")
        self._source.mkdir()

    def arrive(self, number: int) -> None:
        """Put a file with all amounts."""
        lines = [json.dumps({"key": key, "amount": amount}) for key, amount in AMOUNTS]
        (self._source / f"{number}.json").write_text("\n".join(lines))

    def run(self, *, fails: bool = False, **options: Any) -> None:
        """Run the query to its end; its sink may fail after it has the rows."""

        def emit(df: Any, number: int) -> None:
            self.given.append((number, sorted(map(tuple, df.collect()))))
            if fails:
                raise RuntimeError("the sink fails")

        rows = self._spark.readStream.schema("key string, amount long").json(str(self._source))
        options = {**self._options, **options}
        out = map_state(rows, running_total, TOTALS, schema="key string, total long", **options)
        writer = out.writeStream.foreachBatch(emit).trigger(**AVAILABLE)
        writer.option("checkpointLocation", self._checkpoint).start().awaitTermination()


def check_that_it_goes_on(
    streamed: Streamed, rescale: Callable[[int], object], follow: Callable[[str], object]
) -> None:
    """Check that a stream goes on with its checkpoint after rescales, one of them too early.

    A rescale before the repetition of a failed micro-batch is refused with advice: `follow` gets
    the message and has to do what it says.
    """
    given = streamed.given
    streamed.arrive(0)
    streamed.run(partitions=4)
    rescale(2)
    streamed.arrive(1)
    streamed.run()
    assert given == [(n, sorted((key, v * (n + 1)) for key, v in AMOUNTS)) for n in (0, 1)]
    streamed.arrive(2)
    with pytest.raises(Exception, match="the sink fails"):
        streamed.run(fails=True)
    rescale(3)
    with pytest.raises(Exception, match="go back to the earlier shards") as refused:
        streamed.run()
    follow(str(refused.value))
    streamed.run()
    wanted = sorted((key, amount * 3) for key, amount in AMOUNTS)
    assert given[-1] == given[-2] == (2, wanted)
    rescale(3)
    streamed.arrive(3)
    streamed.run()
    assert given[-1] == (3, sorted((key, amount * 4) for key, amount in AMOUNTS))

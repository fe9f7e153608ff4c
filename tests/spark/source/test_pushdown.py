"""Filters that narrow a read: never a row too few. No Spark."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource as ds

from kstore_core import serdes
from kstore_core.codec import partition
from kstore_core.spark.source.planning import plan_of
from kstore_core.spark.source.pushdown import narrowed
from kstore_core.spark.source.reader import StoreReader
from tests.spark.source.filtered import SHARDS, STORES, Fill, options_of, publish_all
from tests.spark.support.by_hand import rows_of

if TYPE_CHECKING:
    from kstore_core.spec import StoreSpec

IDS = [spec.name for spec, *_ in STORES]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return publish_all(tmp_path_factory.mktemp("filtered"))


CALLS: dict[Any, Callable[[Any, Any], bool]] = {
    ds.EqualTo: operator.eq,
    ds.EqualNullSafe: operator.eq,
    ds.GreaterThan: operator.gt,
    ds.GreaterThanOrEqual: operator.ge,
    ds.LessThan: operator.lt,
    ds.LessThanOrEqual: operator.le,
    ds.In: lambda found, values: any(found == each for each in values if each is not None),
    ds.StringStartsWith: lambda found, start: found.startswith(start),
    ds.StringEndsWith: lambda found, end: found.endswith(end),
}


def passes(row: dict[str, Any], filter_: Any) -> bool:
    """What Spark makes of a filter, where the value has the type of the column."""
    if isinstance(filter_, ds.Not):
        inner: Any = filter_.child
        return row[inner.attribute[0]] is not None and not passes(row, inner)
    found = row[filter_.attribute[0]]
    if isinstance(filter_, ds.IsNull):
        return found is None
    if isinstance(filter_, ds.IsNotNull):
        return found is not None
    if found is None or filter_.value is None:
        return isinstance(filter_, ds.EqualNullSafe) and found is filter_.value
    return CALLS[type(filter_)](found, filter_.value)


def filters_for(keys: list[Any], columns: set[str], dice: random.Random) -> list[ds.Filter]:
    """Some filters that Spark could push down."""
    comparisons = [
        each for each in CALLS if each.__name__ != "In" and "String" not in each.__name__
    ]
    times = sorted(columns & {"timestamp", "valid_to", "window_start", "window_end"})
    times += sorted(columns & {"session_start", "session_end"})
    filters: list[ds.Filter] = []
    for _ in range(dice.randrange(1, 4)):
        column = dice.choice(["key", "key", "partition", *times])
        values = {"key": keys, "partition": list(range(-1, SHARDS + 1))}.get(column)
        values = list(range(0, 1100, 7)) if values is None else values
        kind = dice.randrange(10)
        if kind < 2:
            some = dice.sample(values, dice.randrange(min(len(values), 4)))
            made: ds.Filter = ds.In((column,), tuple([*some, None][: dice.randrange(9)]))
        elif kind == 2 and column == "key" and isinstance(keys[0], str):
            made = dice.choice([ds.StringStartsWith, ds.StringEndsWith])(
                ("key",), dice.choice(["", "a", "ab", "k", "é"])
            )
        elif kind == 3:
            made = dice.choice([ds.IsNull, ds.IsNotNull])((column,))
        else:
            made = dice.choice([ds.EqualTo, *comparisons])((column,), dice.choice(values))
        filters.append(ds.Not(made) if dice.random() < 0.15 else made)
    return filters


def millis(root: Path, options: dict[str, str]) -> dict[str, str]:
    return {"path": str(root), "timestamps": "millis", **options}


@pytest.mark.parametrize(("spec", "keys", "put", "options"), STORES, ids=IDS)
def test_a_narrowed_read_has_every_row_that_passes(
    spec: StoreSpec, keys: list[Any], put: Fill, options: dict[str, str], roots: dict[str, Path]
) -> None:
    plan = plan_of(millis(roots[spec.name], options))
    every = rows_of(plan)
    known = [row["key"] for row in every] if spec.key is serdes.JSON else keys
    fewer = 0
    for seed in range(25):
        filters = filters_for(known, set(plan.task.schema.names), random.Random(seed))
        less = rows_of(narrowed(plan, filters))
        want = [row for row in every if all(passes(row, each) for each in filters)]
        got = [row for row in less if all(passes(row, each) for each in filters)]
        assert sorted(got, key=str) == sorted(want, key=str), (seed, filters)
        fewer += len(less) < len(every)
    assert every
    assert fewer > 6, "the filters narrow nothing"


def narrowed_to(roots: dict[str, Path], name: str, *filters: ds.Filter) -> Any:
    return narrowed(plan_of(millis(roots[name], options_of(name))), filters)


def test_only_the_shards_of_the_keys_are_opened(roots: dict[str, Path]) -> None:
    plan = narrowed_to(roots, "texts", ds.In(("key",), ("k1", "k2", None)))
    numbers = {partition(key.encode(), SHARDS) for key in ("k1", "k2")}
    assert {part.shard.shard for part in plan.parts} == numbers
    assert sorted(key for part in plan.parts for key in part.keys) == [b"k1", b"k2"]
    contradiction = [ds.EqualTo(("key",), "k1"), ds.EqualTo(("key",), "k2")]
    assert narrowed_to(roots, "texts", *contradiction).parts == ()
    assert narrowed_to(roots, "prefixed", ds.StringStartsWith(("key",), "b")).parts == ()
    (only,) = narrowed_to(roots, "longs", ds.EqualTo(("partition",), 1)).parts
    assert only.shard.shard == 1


def test_bounds_of_time_reach_the_selection(roots: dict[str, Path]) -> None:
    after = ds.GreaterThan(("timestamp",), 800)
    assert narrowed_to(roots, "texts", after).task.selection.from_ts == 799
    assert narrowed_to(roots, "latest", after).task.selection.from_ts is None
    before = ds.LessThan(("timestamp",), 800)
    assert narrowed_to(roots, "texts", before).task.selection.to_ts is None
    started = [ds.GreaterThanOrEqual(("window_start",), 700), ds.LessThan(("window_end",), 900)]
    selection = narrowed_to(roots, "windows", *started).task.selection
    assert (selection.from_ts, selection.to_ts) == (699, 900)
    lowest = ds.GreaterThan(("timestamp",), -(2**63))
    assert narrowed_to(roots, "texts", lowest).task.selection.from_ts == -(2**63)


def test_other_reads_are_narrowed_by_shard(roots: dict[str, Path]) -> None:
    changes = plan_of({"path": str(roots["texts"]), "changes": "true", "from_version": "0"})
    (part,) = narrowed(changes, [ds.EqualTo(("partition",), 2)]).parts
    assert part.number == 2
    assert narrowed(changes, [ds.EqualTo(("key",), "k1")]).parts == changes.parts
    metadata = plan_of({"path": str(roots["texts"]), "metadata": "shards"})
    assert narrowed(metadata, [ds.EqualTo(("partition",), 2)]) == metadata


def test_a_reader_takes_filters_without_seeming_to() -> None:
    """Spark fails every read of a class that overrides pushFilters while its setting is off."""
    assert StoreReader.pushFilters is ds.DataSourceReader.pushFilters
    nothing: Any = None
    for takes_filters in (False, True):
        taken: Any = StoreReader(nothing, takes_filters=takes_filters).pushFilters
        assert taken.__func__ is ds.DataSourceReader.pushFilters

"""Offsets as options and checkpoints spell them, cut into ranges, and shared out."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.errors import SpecError
from kstore_core.spark.kafka.offsets import (
    EARLIEST,
    OffsetRange,
    Offsets,
    Positions,
    limited,
    nested,
    placed,
    split,
)
from kstore_core.testing.running import quick

PLACES = st.tuples(st.sampled_from(["a", "b.c", "ä"]), st.integers(0, 12))
SIZES = st.dictionaries(PLACES, st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), max_size=8)


@quick(40)
@given(st.dictionaries(PLACES, st.integers(0, 2**62)))
def test_a_checkpoint_holds_what_was_put_into_it(offsets: Offsets) -> None:
    assert placed(json.loads(json.dumps(nested(offsets)))) == offsets


@quick(60)
@given(SIZES, st.integers(1, 10**5))
def test_a_limit_is_used_up_and_never_exceeded(
    sizes: dict[tuple[str, int], tuple[int, int]], limit: int
) -> None:
    start = {place: begin for place, (begin, _) in sizes.items()}
    end = {place: begin + size for place, (begin, size) in sizes.items()}
    until = limited(start, end, limit)
    taken = {place: until[place] - start[place] for place in start}
    assert sum(taken.values()) == min(limit, sum(size for _, size in sizes.values()))
    for place, (_, size) in sizes.items():
        assert 0 <= taken[place] <= size
        share = size * limit / max(1, sum(size for _, size in sizes.values()))
        assert taken[place] >= min(size, int(share))


@quick(60)
@given(SIZES, st.none() | st.integers(1, 40))
def test_ranges_are_cut_without_losing_anything(
    sizes: dict[tuple[str, int], tuple[int, int]], at_least: int | None
) -> None:
    ranges = [
        OffsetRange(*place, begin, begin + size)
        for place, (begin, size) in sorted(sizes.items())
        if size
    ]
    parts = split(ranges, at_least)
    total = sum(one.end - one.begin for one in ranges)
    assert len(parts) >= min(at_least or 0, total)
    assert all(one.begin < one.end for one in parts)
    for one in ranges:
        of_it = [p for p in parts if (p.topic, p.partition) == (one.topic, one.partition)]
        assert (of_it[0].begin, of_it[-1].end) == (one.begin, one.end)
        assert all(before.end == after.begin for before, after in pairwise(of_it))
        lengths = {p.end - p.begin for p in of_it}
        assert max(lengths) - min(lengths) <= 1
    if at_least is None or len(ranges) >= at_least:
        assert parts == ranges


def test_positions_have_to_name_each_partition() -> None:
    earliest = {("t", 0): 3, ("t", 1): 4}
    latest = {("t", 0): 9, ("t", 1): 8}
    whole = Positions("startingOffsets", each={("t", 0): EARLIEST, ("t", 1): 7})
    assert whole.at(earliest, latest) == {("t", 0): 3, ("t", 1): 7}
    assert Positions("endingOffsets").at(earliest, latest) == latest
    partly = Positions("startingOffsets", each={("t", 0): 1, ("u", 5): 7})
    with pytest.raises(
        SpecError, match=r"startingOffsets does not name .* missing: t-1; not read: u-5"
    ):
        partly.at(earliest, latest)

"""Versions found by key and time, and cut into spans, against plain loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.codec import partition
from kstore_core.spark.join.lookup import VersionLookup
from kstore_core.spark.join.spans import overlaps
from kstore_core.spark.join.version_index import VersionIndex

FOREVER = 2**63 - 1
KEYS = [b"", b"a", b"aa", b"b"]


@dataclass(frozen=True)
class Version:
    key: bytes
    begin: int
    end: int


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    """Versions of a few keys, each ending where the next one begins, or in a gap before it."""
    versions = []
    for key in KEYS:
        times = sorted(draw(st.sets(st.integers(-5, 40), max_size=8)))
        for begin, following in zip(times, [*times[1:], FOREVER], strict=False):
            end = following
            if draw(st.booleans()) and following - begin > 1:
                end = draw(st.integers(begin + 1, min(following, begin + 9)))
            versions.append(Version(key, begin, end))
    return draw(st.permutations(versions))


def lookup_of(
    versions: Sequence[Version], horizons: Sequence[int] = (-(2**63),), indexes: int = 1
) -> VersionLookup:
    """A lookup in one or several indexes. For several, the versions must be sorted by index."""
    parts: list[list[Version]] = [[] for _ in range(indexes)]
    for version in versions:
        parts[partition(version.key, len(horizons)) % indexes].append(version)
    return VersionLookup(
        [
            VersionIndex(
                pa.array([v.key for v in part], pa.binary()),
                pa.array([v.begin for v in part], pa.int64()),
                pa.array([None if v.end == FOREVER else v.end for v in part], pa.int64()),
                horizons,
            )
            for part in parts
        ],
        len(horizons),
    )


def by_index(versions: list[Version], shards: int, indexes: int) -> list[Version]:
    return sorted(versions, key=lambda version: partition(version.key, shards) % indexes)


def expected(
    versions: list[Version],
    row: tuple[bytes | None, int | None],
    horizons: list[int],
    tolerance: int | None,
) -> int | None:
    """The place of the version that a row of microseconds finds."""
    key, micros = row
    if key is None or micros is None:
        return None
    horizon = horizons[partition(key, len(horizons))]
    for place, version in enumerate(versions):
        if version.key != key or not version.begin * 1000 <= micros < version.end * 1000:
            continue
        if micros < horizon * 1000 and version.end != FOREVER:
            continue
        if tolerance is None or micros - version.begin * 1000 <= tolerance * 1000:
            return place
    return None


rows_of_keys = st.tuples(
    st.none() | st.sampled_from([*KEYS, b"c"]),
    st.none() | st.integers(-10_000, 60_000) | st.integers(-10, 60).map(lambda ms: ms * 1000),
)


@settings(deadline=None)
@given(
    histories(),
    st.lists(rows_of_keys),
    st.lists(st.integers(-100, 50), min_size=1, max_size=3),
    st.none() | st.integers(0, 10),
    st.booleans(),
    st.integers(1, 3),
)
def test_every_row_finds_the_version_of_its_time(
    versions: list[Version],
    rows: list[tuple[bytes | None, int | None]],
    horizons: list[int],
    tolerance: int | None,
    whole: bool,
    indexes: int,
) -> None:
    indexes = min(indexes, len(horizons))
    versions = by_index(versions, len(horizons), indexes)
    if whole:
        rows = [(key, None if us is None else us // 1000 * 1000) for key, us in rows]
    keys = pa.array([key for key, _ in rows], pa.binary())
    times = pa.array([us for _, us in rows], pa.timestamp("us", tz="UTC"))
    if whole:
        times = times.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    places, begins, ends = lookup_of(versions, horizons, indexes).find(keys, times, tolerance)
    wanted = [expected(versions, row, horizons, tolerance) for row in rows]
    assert places.to_pylist() == wanted
    assert begins.to_pylist() == [None if at is None else versions[at].begin for at in wanted]
    assert [FOREVER if end is None else end for end in ends.to_pylist()] == [
        FOREVER if at is None else versions[at].end for at in wanted
    ]


Span = tuple[bytes | None, int, int]


def pieces_of(versions: list[Version], row: int, span: Span, gaps: bool) -> list[Any]:
    """What a span is cut into, found a ms at a time."""
    key, begin, end = span
    found: list[Any] = []
    for time in range(begin, min(end, 60)):
        at = next(
            (p for p, v in enumerate(versions) if v.key == key and v.begin <= time < v.end), None
        )
        if found and found[-1][1] == at:
            found[-1][4] = time + 1
        else:
            since = None if at is None else versions[at].begin
            found.append([row, at, since, time, time + 1])
    if found and end == FOREVER:
        found[-1][4] = None  # nothing changes after the last ms that was looked at
    return [piece for piece in found if gaps or piece[1] is not None]


spans = st.tuples(
    st.none() | st.sampled_from([*KEYS, b"c"]),
    st.integers(-10, 50),
    st.integers(-9, 59) | st.just(FOREVER),
)


@settings(deadline=None)
@given(
    histories(), st.lists(spans, max_size=12), st.booleans(), st.integers(0, 5), st.integers(1, 3)
)
def test_spans_are_cut_at_the_versions_of_their_keys(
    versions: list[Version], rows: list[Span], gaps: bool, limit: int, indexes: int
) -> None:
    versions = by_index(versions, 3, indexes)
    lookup = lookup_of(versions, [-(2**63)] * 3, indexes)
    keys = pa.array([key for key, _, _ in rows], pa.binary())
    begins = pa.array([begin for _, begin, _ in rows], pa.int64())
    ends = pa.array([None if end == FOREVER else end for *_, end in rows], pa.int64())
    found, start, calls = [], 0, 0
    while start < len(rows) or not calls:
        start, *columns = overlaps(lookup, keys, begins, ends, gaps=gaps, start=start, limit=limit)
        found += [list(piece) for piece in zip(*(c.to_pylist() for c in columns), strict=True)]
        calls += 1
    wanted = [pieces_of(versions, row, span, gaps) for row, span in enumerate(rows)]
    assert found == [piece for pieces in wanted for piece in pieces]
    if not limit:
        assert calls == 1
    elif limit == 1:
        assert calls >= sum(map(bool, wanted))


def test_many_keys_are_told_apart() -> None:
    """More than a few times the table of slots is doubled; some keys are given twice, apart."""
    count = 70_000
    keys = [b"%d" % n for n in range(count)]
    index = VersionIndex(
        pa.array([*keys, *keys[::7]]),
        pa.array([10] * count + [5] * len(keys[::7])),
        pa.array([None] * count + [10] * len(keys[::7]), pa.int64()),
        [0],
    )
    assert len(index) == count + len(keys[::7])
    assert index.nbytes > 24 * len(index)
    lookup = VersionLookup([index])
    places, begins, _ = lookup.find(pa.array(keys), pa.array([7] * count))
    assert places.to_pylist() == [None if n % 7 else count + n // 7 for n in range(count)]
    assert begins.drop_null().unique().to_pylist() == [5]
    places, *_ = lookup.find(pa.array([*keys, b"x"]), pa.array([10] * (count + 1)))
    assert places.to_pylist() == [*range(count), None]


def test_slices_are_read_where_they_lie() -> None:
    versions = [Version(b"a", 1, 5), Version(b"a", 5, FOREVER), Version(b"b", 2, 4)]
    index = VersionIndex(
        pa.array([b"x", *(v.key for v in versions)])[1:],
        pa.array([9, *(v.begin for v in versions)])[1:],
        pa.array([9, 5, None, 4])[1:],
        [0],
    )
    keys = pa.array([b"x", b"a", None, b"b", b"a"])[1:]
    times = pa.array([9, 4, 4, 3, None])[1:]
    assert [c.to_pylist() for c in VersionLookup([index]).find(keys, times)] == [
        [0, None, 2, None],
        [1, None, 2, None],
        [5, None, 4, None],
    ]


def test_tolerances_of_any_size_are_exact() -> None:
    lookup = lookup_of([Version(b"a", -(2**62), FOREVER)])
    rows = pa.array([b"a"] * 2), pa.array([-(2**62), 2**63 - 2])
    assert lookup.find(*rows, 2**63 + 2**62 - 3)[0].to_pylist() == [0, None]
    assert lookup.find(*rows, 2**63 + 2**62 - 2)[0].to_pylist() == [0, 0]
    assert lookup.find(*rows, 2**80)[0].to_pylist() == [0, 0]


def test_what_does_not_fit_together_is_refused() -> None:
    keys, times = pa.array([b"a", b"b"]), pa.array([1, 2])
    index = VersionIndex(keys, times, times, [0])
    lookup = VersionLookup([index])
    for given_ in ((keys, times, times[:1], [0]), (keys[:1], times, times, [0])):
        with pytest.raises(ValueError, match="one end time for each version"):
            VersionIndex(*given_)
    with pytest.raises(ValueError, match="horizons is empty"):
        VersionIndex(keys, times, times, [])
    for given_ in ((pa.array([b"a", None]), times, times), (keys, pa.array([1, None]), times)):
        with pytest.raises(ValueError, match="the key or the start time of a version is null"):
            VersionIndex(*given_, [0])
    with pytest.raises(ValueError, match="2 keys and 1 times"):
        lookup.find(keys, times[:1])
    with pytest.raises(ValueError, match="tolerance_ms=-1"):
        lookup.find(keys, times, -1)
    with pytest.raises(TypeError, match="binary"):
        lookup.find(times, times)
    with pytest.raises(ValueError, match="for each row"):
        overlaps(lookup, keys, times, times[:1])
    with pytest.raises(ValueError, match="start=3 is not a position"):
        overlaps(lookup, keys, times, times, start=3)
    for indexes, shards in (([], 1), ([index] * 3, 2)):
        with pytest.raises(ValueError, match=f"{len(indexes)} indexes of {shards} shards"):
            VersionLookup(indexes, shards)
    with pytest.raises(TypeError):
        VersionLookup([None])  # type: ignore[list-item]

"""The vectorised search against a plain loop over the versions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.spark.snapshots import FOREVER, Snapshot, SnapshotCache

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


def expected(
    versions: list[Version], key: bytes | None, time: int, horizon: int, tolerance: int | None
) -> Version | None:
    for version in versions:
        if version.key != key or not version.begin <= time < version.end:
            continue
        if time < horizon and version.end != FOREVER:
            continue
        if tolerance is None or time - version.begin <= tolerance:
            return version
    return None


@settings(deadline=None)
@given(
    histories(),
    st.lists(st.tuples(st.none() | st.sampled_from([*KEYS, b"c"]), st.integers(-10, 60))),
    st.integers(-100, 50),
    st.none() | st.integers(0, 10),
)
def test_every_row_finds_the_version_of_its_time(
    versions: list[Version],
    rows: list[tuple[bytes | None, int]],
    horizon: int,
    tolerance: int | None,
) -> None:
    snapshot = Snapshot.of(
        pa.array([v.key for v in versions], pa.binary()),
        np.array([v.begin for v in versions], np.int64),
        np.array([v.end for v in versions], np.int64),
        pa.array([f"{v.key!r}@{v.begin}" for v in versions], pa.string()),
        None,
        np.full(len(versions), horizon, np.int64),
    )
    found = snapshot.find(
        pa.array([key for key, _ in rows], pa.binary()),
        np.array([time for _, time in rows], np.int64),
        tolerance_ms=tolerance,
    )
    columns = {name: column.take(found).to_pylist() for name, column in snapshot.columns.items()}
    matches = [expected(versions, key, time, horizon, tolerance) for key, time in rows]
    assert columns["value"] == [v and f"{v.key!r}@{v.begin}" for v in matches]
    assert columns["timestamp"] == [v and v.begin for v in matches]
    assert columns["valid_to"] == [v and (None if v.end == FOREVER else v.end) for v in matches]
    assert "headers" not in columns


def test_an_empty_snapshot_finds_nothing() -> None:
    empty = Snapshot.empty(pa.float64(), headers=True)
    found = empty.find(pa.array([b"a", None]), np.array([1, 2]))
    assert found.to_pylist() == [None, None]
    assert {name: column.take(found).to_pylist() for name, column in empty.columns.items()} == {
        "value": [None, None],
        "timestamp": [None, None],
        "valid_to": [None, None],
        "headers": [None, None],
    }


def test_the_tolerance_is_measured_from_the_time_rounded_up() -> None:
    snapshot = one_version(b"a")
    keys, down = pa.array([b"a", b"a"]), np.array([10, 10])
    up = np.array([10, 11])
    found = snapshot.find(keys, down, latest=up, tolerance_ms=10)
    assert found.to_pylist() == [0, None]


def one_version(key: bytes) -> Snapshot:
    zero = np.zeros(1, np.int64)
    return Snapshot.of(pa.array([key]), zero, zero + FOREVER, pa.array(["v"]), None, zero - 1)


def test_the_cache_keeps_what_was_used_last_within_its_budget() -> None:
    size = one_version(b"a").nbytes
    cache, made = SnapshotCache(2 * size), []

    def ask(name: str) -> None:
        def make() -> Snapshot:
            made.append(name)
            return one_version(b"a")

        cache.get(name, make)

    for name in "abacabb":
        ask(name)
    assert made == ["a", "b", "c", "b"]
    cache.shrink(size - 1)
    ask("b")
    ask("b")
    assert made == ["a", "b", "c", "b", "b", "b"]

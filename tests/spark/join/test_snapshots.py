"""The file of a snapshot: it gives for rows what the same versions in memory give."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import stores
from kstore_core.codec import partition
from kstore_core.spark.join.in_memory import NEVER, VERSIONS, InMemoryVersions
from kstore_core.spark.join.lookup import VersionLookup
from kstore_core.spark.join.snapshots import open_snapshot, write_snapshot
from kstore_core.spark.join.version_index import VersionIndex

PLAIN = stores.versioned_key_value("plain", 10**9)
KEYS = st.sampled_from([b"", b"a", b"aa", b"b"])
ROWS = st.lists(st.tuples(KEYS, st.binary(max_size=9), st.booleans()), max_size=12)


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Some tables of versions, each a second after the one before; some tables are slices."""
    made = []
    time = 0
    for rows in draw(st.lists(ROWS, max_size=4)):
        begins = range(time, time + 1000 * len(rows), 1000)
        time += 1000 * len(rows)
        columns = [
            [key for key, *_ in rows],
            [stored for _, stored, _ in rows],
            list(begins),
            [
                None if last else begin + 1000
                for begin, (*_, last) in zip(begins, rows, strict=True)
            ],
        ]
        table = pa.table(
            [pa.array(c, field.type) for c, field in zip(columns, VERSIONS, strict=True)],
            schema=VERSIONS,
        )
        made.append(table.slice(draw(st.integers(0, len(rows)))))
    return made


@settings(deadline=None)
@given(
    tables(),
    st.lists(st.tuples(KEYS | st.just(b"c"), st.integers(-1, 60_000)), max_size=30),
    st.integers(1, 3),
)
def test_it_gives_what_memory_gives(
    versions: list[pa.Table], rows: list[tuple[bytes, int]], count: int
) -> None:
    horizons = [1_500, 7_000, NEVER]
    files = [written(versions, horizons, number, count) for number in range(count)]
    read = open_snapshot(files, PLAIN)
    whole = InMemoryVersions.of(PLAIN, versions, horizons)
    asked = (
        pa.array([key for key, _ in rows], pa.binary()),
        pa.array([t for _, t in rows], pa.int64()),
    )
    found, wanted = read.lookup.find(*asked), whole.lookup.find(*asked)
    assert [c.to_pylist() for c in found[1:]] == [c.to_pylist() for c in wanted[1:]]
    assert read.columns(found[0], headers=True) == whole.columns(wanted[0], headers=True)
    assert read.expired(*asked) == whole.expired(*asked)
    assert (read.horizons, len(read.lookup)) == (whole.horizons, len(whole.lookup))
    if count == 1:
        assert found[0] == wanted[0]
        assert read.nbytes == whole.nbytes


def written(versions: list[pa.Table], horizons: list[int], number: int, count: int) -> memoryview:
    """The file of the shards `number`, `number + count` and so on."""
    some = []
    for table in versions:
        shards = [partition(key, len(horizons)) for key in table["key"].to_pylist()]
        some.append(table.filter(pa.array([n % count == number for n in shards], pa.bool_())))
    own = [start if n % count == number else NEVER for n, start in enumerate(horizons)]
    file = io.BytesIO()
    write_snapshot(file, iter(some), own)
    return file.getbuffer()


def test_an_index_refuses_arrays_of_another_shape() -> None:
    index = VersionIndex(pa.array([b"a"]), pa.array([1]), pa.array([2]), [0])
    data = bytearray().join(index.arrays)
    other = VersionIndex.mapped(memoryview(data), index.shape)
    assert other.shape == index.shape == (1, 1, 1, 58)
    found = VersionLookup([other]).find(pa.array([b"a"]), pa.array([1]))
    assert [c.to_pylist() for c in found] == [[0], [1], [2]]
    for wrong in (
        (2, 1, 1, 58),
        (1, 1, 1, 0),
        (1, 1, 1, 3),
        (1, 1, 1, 64),
        (-1, 1, 1, 58),
        (2**60, 0, 0, 58),
    ):
        with pytest.raises(ValueError, match="pass the arrays and the shape of one index"):
            VersionIndex.mapped(memoryview(data), wrong)
    with pytest.raises(ValueError, match=f"{len(data)} bytes are not the arrays"):
        VersionIndex.mapped(memoryview(b"x" + data)[1:], index.shape)

"""The file of a snapshot: it gives for rows what the same versions in memory give."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core import stores
from kstore_core.spark.join.in_memory import VERSIONS, InMemoryVersions
from kstore_core.spark.join.lookup import VersionIndex
from kstore_core.spark.join.snapshots import open_snapshot, write_snapshot

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
@given(tables(), st.lists(st.tuples(KEYS | st.just(b"c"), st.integers(-1, 60_000)), max_size=30))
def test_it_gives_what_memory_gives(
    versions: list[pa.Table], rows: list[tuple[bytes, int]]
) -> None:
    horizons = [1_500, 7_000, -(2**63)]
    file = io.BytesIO()
    write_snapshot(file, iter(versions), horizons)
    read = open_snapshot(file.getbuffer(), PLAIN)
    whole = InMemoryVersions.of(PLAIN, versions, horizons)
    asked = (
        pa.array([key for key, _ in rows], pa.binary()),
        pa.array([t for _, t in rows], pa.int64()),
    )
    found, wanted = read.index.find(*asked), whole.index.find(*asked)
    assert [c.to_pylist() for c in found] == [c.to_pylist() for c in wanted]
    assert read.columns(found[0], headers=True) == whole.columns(wanted[0], headers=True)
    assert read.expired(*asked) == whole.expired(*asked)
    assert (read.horizons, len(read.index)) == (whole.horizons, len(whole.index))
    assert read.nbytes == whole.nbytes


def test_an_index_refuses_arrays_of_another_shape() -> None:
    index = VersionIndex(pa.array([b"a"]), pa.array([1]), pa.array([2]), [0])
    data = bytearray().join(index.arrays)
    other = VersionIndex.mapped(memoryview(data), index.shape)
    assert other.shape == index.shape == (1, 1, 1, 58)
    assert [c.to_pylist() for c in other.find(pa.array([b"a"]), pa.array([1]))] == [[0], [1], [2]]
    for wrong in ((2, 1, 1, 58), (1, 1, 1, 0), (1, 1, 1, 64), (-1, 1, 1, 58)):
        with pytest.raises(ValueError, match="pass the arrays and the shape of one index"):
            VersionIndex.mapped(memoryview(data), wrong)
    with pytest.raises(ValueError, match=f"{len(data)} bytes are not the arrays"):
        VersionIndex.mapped(memoryview(b"x" + data)[1:], index.shape)

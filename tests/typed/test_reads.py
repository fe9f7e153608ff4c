"""A key's reads have a short way to its segments, which gives what the long one gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstore_core import open_state, stores
from kstore_core.keys import MAX_TIME, rows_of
from kstore_core.tables import Layer
from kstore_core.testing.running import quick
from kstore_core.typed.reads import Reads
from kstore_core.types import Windowed

INTERVAL = 60_000
KEYS = [b"", b"\0", b"\0" * 9, b"a", b"a\0", b"a" + b"\0" * 12, b"a\xff", b"\xff" * 13]
TIMES = st.integers(0, 4 * INTERVAL)


def rows(reads: Reads, *bounds: object, reverse: bool) -> list[object]:
    with reads.fetch(lambda *row: row, lambda *_: None, *bounds, reverse=reverse) as scan:
        return list(scan)


@quick(100)
@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(KEYS), TIMES, TIMES), max_size=30),
    st.sampled_from(KEYS),
    st.tuples(TIMES, TIMES | st.just(MAX_TIME), TIMES | st.just(MAX_TIME)),
    st.booleans(),
    st.sets(st.integers(0, 30)),
)
def test_the_short_way_gives_what_the_long_one_gives(session, puts, key, times, reverse, commits):
    shape = "session" if session else "window"
    spec = (
        stores.session("s", 3 * INTERVAL, INTERVAL)
        if session
        else stores.window("s", 3 * INTERVAL, 1000, segment_interval_ms=INTERVAL)
    )
    with open_state("unused", engine="memory") as state:
        store = state.open(spec)
        for number, (row_key, one, other) in enumerate(puts):
            begin, end = sorted((one, other))
            if session:
                store.put(Windowed(row_key, begin, end), b"%d" % number)
            else:
                store.put(row_key, b"%d" % number, window_start=begin)
            if number in commits:
                state.commit()
        keys = rows_of(shape)
        ways = [
            Reads(table, store.clock, keys, INTERVAL) for table in (store.table, Layer(store.table))
        ]
        short, long = (rows(way, key, key, *times, reverse=reverse) for way in ways)
        assert short == long
        everything = rows(ways[1], None, None, *times, reverse=reverse)
        split = keys.schema.split
        assert short == [row for row in everything if split(row[0])[0] == key]

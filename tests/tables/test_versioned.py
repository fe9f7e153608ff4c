"""The versioned table: rows by segment, found again with a seek each, read both ways."""

import bisect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore_core.clock import segment_id
from kstore_core.codec import segment_rows
from kstore_core.discovery.registry import make_engine
from kstore_core.stream_clock import StreamClock
from kstore_core.tables import Bounds, Layer, NamespaceTable
from kstore_core.tables.staging import StagedNamespace, Staging
from kstore_core.tables.version_scans import LATEST_PREFIX
from kstore_core.tables.versioned import VersionedTable
from kstore_core.types import LATEST, NOT_PUT

MAX_TIME = 2**63 - 1


def make(retention=1000, interval=10, observed=-1, rows=None):
    rows = rows or NamespaceTable(
        StagedNamespace(Staging(-1), make_engine("memory").open(".", "s"), "default")
    )
    return VersionedTable(rows, interval, StreamClock(retention, observed))


def put(table, key, value, timestamp):
    """As the typed edge does it."""
    if not table.clock.accepts(timestamp):
        return NOT_PUT
    table.clock.advance(timestamp)
    return table.put(key, value, timestamp)


def physical(table):
    return {
        key: value for chunk in table.rows.scan(Bounds()) for key, value in zip(*chunk, strict=True)
    }


def segment(number, key):
    return number.to_bytes(8, "big") + key


def versions(chunks):
    return [pair for chunk in chunks for pair in zip(*chunk, strict=True)]


def history(table, key):
    return [tuple(version) for version in table.history(key, None, None, reverse=False)]


def test_the_latest_version_is_a_row_and_older_ones_lie_by_their_end():
    table = make(interval=100)
    assert put(table, b"k", b"v0", 10) == LATEST
    assert put(table, b"k", b"v1", 150) == LATEST
    rows = physical(table)
    assert rows == {
        LATEST_PREFIX + b"k": (150).to_bytes(8, "big") + b"v1",
        segment(1, b"k"): segment_rows.new_row(b"v0", 10, 150),
    }
    assert table.segments == (1,)


def test_a_put_returns_when_its_version_ends():
    table = make()
    assert put(table, b"k", b"a", 10) == LATEST
    assert put(table, b"k", b"c", 30) == LATEST
    assert put(table, b"k", b"b", 20) == 30
    assert put(table, b"k", b"A", 10) == 20
    assert put(table, b"k", b"0", 5) == 10
    assert history(table, b"k") == [
        (b"0", 5, 10),
        (b"A", 10, 20),
        (b"b", 20, 30),
        (b"c", 30, None),
    ]


def test_a_tombstone_at_the_latest_versions_time_is_remembered():
    """Kafka forgets it, and an older record that comes late would be current for ever."""
    table = make()
    put(table, b"k", b"A", 1000)
    assert put(table, b"k", None, 1000) == LATEST
    assert put(table, b"k", b"B", 500) == 1000
    assert table.get(b"k") is None
    assert table.get_as_of(b"k", 999) == (b"B", 500, 1000)
    assert table.get_as_of(b"k", 1000) is None


def test_the_same_with_a_history_below_it():
    table = make()
    put(table, b"k", b"A", 990)
    put(table, b"k", b"B", 1000)
    put(table, b"k", None, 1000)
    assert put(table, b"k", b"C", 995) == 1000
    assert history(table, b"k") == [(b"A", 990, 995), (b"C", 995, 1000)]
    assert put(table, b"k", b"D", 1001) == LATEST
    assert table.get_as_of(b"k", 1000) is None
    assert table.get(b"k") == (b"D", 1001, None)


def test_a_version_that_ends_in_a_later_segment_is_part_of_history():
    """Kafka looks in the segments of the range only, and misses it."""
    table = make(retention=10**6, interval=100_000)
    put(table, b"k", b"v1", 10)
    put(table, b"k", b"v2", 250_000)
    assert table.history(b"k", 0, 20, reverse=False) == [(b"v1", 10, 250_000)]


@pytest.mark.parametrize(
    ("lo", "hi", "wanted"),
    [
        (None, None, [10, 20, 30]),
        (None, 9, []),
        (None, 10, [10]),
        (19, 19, [10]),
        (20, 20, [20]),
        (19, 20, [10, 20]),
        (30, None, [30]),
        (29, None, [20, 30]),
        (MAX_TIME, None, [30]),
        (-(2**63), MAX_TIME, [10, 20, 30]),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_history_is_what_was_valid_at_some_time_of_the_range(lo, hi, wanted, reverse):
    table = make()
    for timestamp in (10, 20, 30):
        put(table, b"k", b"%d" % timestamp, timestamp)
    found = [version[1] for version in table.history(b"k", lo, hi, reverse=reverse)]
    assert found == (wanted[::-1] if reverse else wanted)


def test_what_expires_is_deleted_as_a_range():
    table = make(retention=100, interval=10)
    for timestamp in range(0, 200, 10):
        put(table, b"k", b"x", timestamp)
    assert table.segments == tuple(range(9, 20))
    assert min(physical(table)) == segment(9, b"k")
    put(table, b"other", b"y", 10_000)
    assert table.segments == ()
    assert list(physical(table)) == [LATEST_PREFIX + b"k", LATEST_PREFIX + b"other"]


def test_a_version_whose_segment_has_expired_is_not_put():
    table = make(retention=0, interval=10)
    put(table, b"k", b"new", 100)
    assert put(table, b"k", b"old", 99) == NOT_PUT
    assert table.clock.dropped_late == 1


def test_the_greatest_time_is_a_time():
    table = make(retention=10, interval=1)
    assert put(table, b"k", b"a", MAX_TIME - 1) == LATEST
    assert put(table, b"k", b"b", MAX_TIME) == LATEST
    assert table.segments == (MAX_TIME,)
    assert table.get_as_of(b"k", MAX_TIME - 1) == (b"a", MAX_TIME - 1, MAX_TIME)
    assert table.get_as_of(b"k", MAX_TIME) == (b"b", MAX_TIME, None)
    assert versions(table.scan_as_of(Bounds(), MAX_TIME - 1)) == [
        (b"k", (b"a", MAX_TIME - 1, MAX_TIME))
    ]
    again = make(retention=10, interval=1, observed=MAX_TIME, rows=table.rows)
    assert again.segments == (MAX_TIME,)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("bounds", [(None, None), (b"b", None), (None, b"c"), (b"b", b"c")])
def test_a_scan_gives_each_key_once_in_order(bounds, reverse):
    table = make()
    for timestamp in range(0, 100, 7):
        for key in (b"a", b"b", b"bb", b"c"):
            put(table, key, b"%d" % timestamp, timestamp)
    keys = [k for k in (b"a", b"b", b"bb", b"c") if (bounds[0] or b"") <= k < (bounds[1] or b"z")]
    if reverse:
        keys.reverse()
    within = Bounds(*bounds, reverse=reverse)
    assert versions(table.scan_latest(within)) == [(k, (b"98", 98, None)) for k in keys]
    for as_of in (0, 6, 7, 50, 97, 98, 10**9):
        wanted = [(key, table.get_as_of(key, as_of)) for key in keys]
        assert versions(table.scan_as_of(within, as_of)) == wanted
        assert table.get_many(keys, as_of) == [version for _, version in wanted]


def test_keys_that_look_like_prefixes_are_keys():
    table = make()
    for key in (b"", b"\x00" * 8, b"\xff" * 8, b"\xff" * 16):
        put(table, key, b"old", 10)
        put(table, key, b"new", 20)
    assert [key for key, _ in versions(table.scan_latest(Bounds()))] == [
        b"",
        b"\x00" * 8,
        b"\xff" * 8,
        b"\xff" * 16,
    ]
    assert versions(table.scan_as_of(Bounds(), 15)) == [
        (key, (b"old", 10, 20)) for key in (b"", b"\x00" * 8, b"\xff" * 8, b"\xff" * 16)
    ]


class CountingRows:
    """A table of rows that counts what is asked of the engine."""

    def __init__(self, table):
        self._table = table
        self.seeks = 0

    def first(self, *bounds, **arguments):
        self.seeks += 1
        return self._table.first(*bounds, **arguments)

    def __getattr__(self, name):
        return getattr(self._table, name)


@pytest.mark.parametrize("keys", [1, 30])
def test_a_thousand_segments_are_found_with_a_seek_each(keys):
    table = make(retention=10**9, interval=10)
    for timestamp in range(0, 10_010, 10):
        for number in range(keys):
            put(table, b"%d" % number, b"v", timestamp)
    assert len(table.segments) == 1000
    rows = CountingRows(table.rows)
    again = make(retention=10**9, interval=10, observed=10_000, rows=rows)
    assert again.segments == table.segments
    assert rows.seeks <= len(again.segments) + 1


def test_segments_are_found_among_latest_rows_only():
    table = make()
    put(table, b"k", b"v", 5)
    rows = CountingRows(table.rows)
    assert make(rows=rows).segments == ()
    assert rows.seeks == 1


def test_physical_rows_are_loaded_and_their_segments_found():
    table = make(retention=10**6, interval=100)
    rows = [
        (segment(1, b"k"), segment_rows.new_row(b"old", 10, 150)),
        (LATEST_PREFIX + b"k", (150).to_bytes(8, "big") + b"new"),
    ]
    assert table.load([([key for key, _ in rows], [value for _, value in rows])]) == 2
    assert table.segments == (1,)
    assert history(table, b"k") == [(b"old", 10, 150), (b"new", 150, None)]


def test_a_half_written_put_is_repaired_by_the_next():
    """A crash after the retired row and before the latest one leaves the version in both places."""
    table = make()
    put(table, b"k", b"a", 10)
    table.rows.put_one(segment(2, b"k"), segment_rows.new_row(b"a", 10, 20))
    again = make(rows=table.rows)
    assert again.get_as_of(b"k", 25) == (b"a", 10, None)
    assert put(again, b"k", b"b", 20) == LATEST
    assert history(again, b"k") == [(b"a", 10, 20), (b"b", 20, None)]


def test_ids_stay_sorted_however_versions_come():
    table = make(retention=10**6, interval=1)
    for timestamp in (500, 100, 300, 200, 400, 150):
        put(table, b"k", b"v", timestamp)
    assert list(table.segments) == sorted(set(table.segments))
    assert bisect.bisect_left(table.segments, 500) == len(table.segments) - 1


# Stream time may be ahead of a put where a changelog is restored.


def test_what_would_lie_in_an_expired_segment_is_not_put():
    table = make(retention=100, interval=10, observed=1000)
    assert table.put(b"k", None, 10) == NOT_PUT
    assert table.put(b"k", b"b", 50) == LATEST
    assert table.put(b"k", b"a", 40) == NOT_PUT
    assert table.put(b"k", b"c", 60) == LATEST
    assert physical(table) == {LATEST_PREFIX + b"k": (60).to_bytes(8, "big") + b"c"}


def test_what_precedes_an_expired_version_is_not_put():
    table = make(retention=10**6, interval=1000)
    put(table, b"k", b"a", 10)
    put(table, b"k", b"b", 20)
    again = make(retention=100, interval=1000, observed=1050, rows=table.rows)
    assert again.put(b"k", b"0", 5) == NOT_PUT
    assert again.put(b"k", b"c", 15) == 20
    assert history(again, b"k") == [(b"a", 10, 15), (b"c", 15, 20), (b"b", 20, None)]


def test_keys_beyond_the_segments_are_nobodys():
    table = make()
    table.rows.put_one(b"\x80" + bytes(8), b"?")
    assert make(rows=table.rows).segments == ()


def newest_first(table, key, as_of):
    """Kafka's walk: from the newest segment back, with a lookup in each."""
    latest = table.get(key)
    if latest is not None and latest[1] <= as_of:
        return latest
    for number in reversed(table.segments):
        if number < segment_id(as_of, table.segment_interval_ms):
            break
        row = table.rows.get(segment(number, key))
        if row is None:
            continue
        if segment_rows.next_timestamp(row) <= as_of:
            return None
        if segment_rows.min_timestamp(row) <= as_of:
            _, valid_from, valid_to, value = segment_rows.find(row, as_of)
            return None if value is None else (value, valid_from, valid_to)
    return None


@settings(max_examples=300, deadline=None)
@given(
    interval=st.sampled_from([1, 3, 10, 100]),
    retention=st.sampled_from([0, 20, 60, 1000]),
    puts=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 120), st.booleans()), max_size=40
    ),
)
def test_reads_begin_at_the_segment_of_the_time(interval, retention, puts):
    table = make(retention, interval)
    for number, (key, timestamp, is_tombstone) in enumerate(puts):
        put(table, key.encode(), None if is_tombstone else b"%d" % number, timestamp)
    for as_of in range(max(table.clock.horizon, 0), 125):
        expected = [newest_first(table, key, as_of) for key in (b"a", b"b")]
        assert [table.get_as_of(b"a", as_of), table.get_as_of(b"b", as_of)] == expected
        assert table.get_many([b"a", b"b"], as_of) == expected


def test_a_read_of_a_dense_key_looks_up_one_segment_however_many_there_are():
    class Counting(Layer):
        """A layer that lists the keys that were looked up."""

        def get(self, key):
            lookups.append(key)
            return self.below.get(key)

    lookups = []
    table = make(retention=10**6, interval=10, rows=Counting(make().rows))
    for timestamp in range(0, 5000, 5):
        put(table, b"k", b"%d" % timestamp, timestamp)
    lookups.clear()
    assert table.get_as_of(b"k", 12) == (b"10", 10, 15)
    assert lookups == [LATEST_PREFIX + b"k", segment(1, b"k")]

"""Ordered rows: held against a dict that is sorted whenever somebody looks."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kstore_core.engine.ordered import OrderedRows, take

KEYS = st.one_of(st.binary(max_size=2), st.integers(0, 2000).map(b"%05d".__mod__))
ENDS = st.none() | KEYS


def rows_of(scan):
    """What a scan gives, its chunks held to what every chunk must be."""
    found = []
    for keys, values in scan:
        assert keys
        assert len(keys) == len(values)
        found += zip(keys, values, strict=True)
    return found


def wanted(rows, lo=None, hi=None, reverse=False):
    return [
        (key, rows[key])
        for key in sorted(rows, reverse=reverse)
        if (lo is None or lo <= key) and (hi is None or key < hi)
    ]


def filled(keys):
    rows = OrderedRows()
    for key in keys:
        rows.put(key, key)
    return rows


class OrderedMachine(RuleBasedStateMachine):
    """Changes, views and half-read scans in any order; what was seen once never changes."""

    for_lookups = False

    def __init__(self):
        super().__init__()
        self.rows = OrderedRows(self.for_lookups)
        self.model = {}
        self.views = []
        self.scans = []
        self.counter = 0

    @rule(key=KEYS)
    def put(self, key):
        self.counter += 1
        self.rows.put(key, self.counter)
        self.model[key] = self.counter

    @rule(start=st.integers(0, 2000), count=st.integers(1, 700))
    def put_many(self, start, count):
        for number in range(start, start + count):
            self.put(b"%05d" % number)

    @rule(key=KEYS)
    def remove(self, key):
        assert self.rows.remove(key) == (self.model.pop(key, None) is not None)

    @rule(start=st.integers(0, 2000), count=st.integers(1, 700))
    def remove_many(self, start, count):
        for number in range(start, start + count):
            self.remove(b"%05d" % number)

    @rule()
    def view(self):
        self.views.append((self.rows.view(), dict(self.model)))

    @rule()
    def forget_a_view(self):
        if self.views:
            self.views.pop(0)

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def scan_now(self, lo, hi, reverse):
        scan = self.rows.view().scan(lo, hi, reverse)
        assert rows_of(scan) == wanted(self.model, lo, hi, reverse)

    @rule(reverse=st.booleans())
    def begin_a_scan(self, reverse):
        scan = self.rows.view().scan(None, None, reverse)
        keys, values = scan.next_chunk() or ([], [])
        seen = list(zip(keys, values, strict=True))
        self.scans.append((scan, seen, wanted(self.model, None, None, reverse)))

    @rule()
    def finish_a_scan(self):
        if self.scans:
            scan, seen, everything = self.scans.pop(0)
            assert seen + rows_of(scan) == everything

    @rule(lo=ENDS, hi=ENDS, reverse=st.booleans())
    def old_views_show_their_moment(self, lo, hi, reverse):
        for view, model in self.views:
            assert rows_of(view.scan(lo, hi, reverse)) == wanted(model, lo, hi, reverse)

    @invariant()
    def the_map_is_the_models(self):
        assert len(self.rows) == len(self.model)
        if self.for_lookups:
            assert all(self.rows.table.get(key) is value for key, value in self.model.items())
        else:
            assert self.rows.rows == self.model


class LookupsMachine(OrderedMachine):
    for_lookups = True


@pytest.mark.parametrize("machine", [OrderedMachine, LookupsMachine])
def test_a_life_of_changes_views_and_scans(machine):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=80, stateful_step_count=40, deadline=None)
    )


@settings(deadline=None)
@given(
    st.dictionaries(st.binary(max_size=3), st.integers(), max_size=40), ENDS, ENDS, st.booleans()
)
def test_bounds_are_half_open_both_ways(model, lo, hi, reverse):
    rows = OrderedRows()
    for key, value in model.items():
        rows.put(key, value)
    assert rows_of(rows.view().scan(lo, hi, reverse)) == wanted(model, lo, hi, reverse)


STEMS = st.sampled_from([b"", b"a", b"12345678", b"123456789012", b"12345678\0\0\0\0", b"x" * 30])


@settings(deadline=None)
@given(
    st.sets(st.builds(bytes.__add__, STEMS, st.text("\0\1z", max_size=20).map(str.encode))),
    st.booleans(),
)
def test_keys_with_equal_beginnings_are_sorted(keys, for_lookups):
    rows = OrderedRows(for_lookups)
    for key in keys:
        rows.put(key, len(key))
    assert rows_of(rows.view().scan()) == [(key, len(key)) for key in sorted(keys)]


def test_no_rows_give_no_chunk():
    rows = OrderedRows()
    assert rows_of(rows.view().scan()) == []
    rows.put(b"a", 1)
    rows.view()
    rows.remove(b"a")
    assert rows_of(rows.view().scan()) == []
    assert rows.view().scan().next_chunk() is None


def test_remove_tells_whether_the_key_was_there():
    rows = filled([b"a"])
    assert rows.remove(b"a") is True
    assert rows.remove(b"a") is False


@pytest.mark.parametrize("reverse", [False, True])
def test_a_view_stays_as_it_was_through_splits_and_removals(reverse):
    rows = filled(b"%05d" % number for number in range(0, 4000, 2))
    view = rows.view()
    before = rows_of(view.scan(None, None, reverse))
    for number in range(1, 4000, 2):
        rows.put(b"%05d" % number, b"new")
        if number % 501 == 0:
            rows.view()
    for number in range(0, 4000, 2):
        rows.remove(b"%05d" % number)
    rows.view()
    assert rows_of(view.scan(None, None, reverse)) == before
    assert [key for key, _ in rows_of(rows.view().scan())] == [
        b"%05d" % number for number in range(1, 4000, 2)
    ]


def test_emptied_in_the_middle_and_filled_again():
    rows = filled(b"%05d" % number for number in range(2000))
    rows.view()
    for number in range(256, 1024):
        rows.remove(b"%05d" % number)
    rows.view()
    rows.put(b"00500", b"back")
    found = rows_of(rows.view().scan(b"00255", b"01025"))
    assert [key for key, _ in found] == [b"00255", b"00500", b"01024"]


def test_values_may_be_any_object():
    rows = OrderedRows()
    rows.put(b"a", None)
    rows.put(b"b", [1])
    assert rows_of(rows.view().scan()) == [(b"a", None), (b"b", [1])]


def test_a_dropped_view_is_not_copied_for():
    rows = filled(b"%05d" % number for number in range(600))
    for number in range(50):
        view = rows.view()
        del view
        rows.put(b"%05d" % number, b"x")
    assert len(rows_of(rows.view().scan())) == 600


@pytest.mark.parametrize("key", [None, "a", 1, bytearray(b"a")])
def test_a_key_is_bytes(key):
    rows = OrderedRows()
    with pytest.raises(TypeError):
        rows.put(key, 1)
    assert len(rows) == 0


def test_a_put_and_a_scan_in_turn_do_not_sort_everything_again():
    """Ten thousand pairs of a put and a short scan: quick only if each merges its own row."""
    rows = filled(b"%06d" % number for number in range(0, 100_000, 2))
    for number in range(1, 20_000, 2):
        rows.put(b"%06d" % number, b"x")
        chunk = rows.view().scan(b"%06d" % number).next_chunk()
        assert chunk[0][0] == b"%06d" % number


def test_threads_read_whole_moments_while_one_writes():
    """What a scan gives is in order and lacks no row that was there before."""
    rows = filled(b"%03d" % number for number in range(900))
    failures = []
    stop = threading.Event()

    def read():
        while not stop.is_set():
            keys = [key for key, _ in rows_of(rows.view().scan())]
            if keys != sorted(keys) or len(keys) < 900:
                failures.append(keys)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3000):
        rows.put(b"%03d-%d" % (number % 900, number), number)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_pairs_are_taken_up_to_a_size_and_an_end():
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert take(iter(pairs), 5) == ([b"a", b"b", b"c"], [b"1", b"2", b"3"], False)
    assert take(iter(pairs), 5, b"c") == ([b"a", b"b"], [b"1", b"2"], False)
    assert take(iter(pairs), 5, b"") == ([], [], False)
    assert take(iter([]), 1) == ([], [], False)
    left = iter(pairs)
    assert take(left, 2, b"z") == ([b"a", b"b"], [b"1", b"2"], True)
    assert list(left) == pairs[2:], "not one more is taken"
    with pytest.raises(TypeError):
        take(iter([("text", b"1")]), 5, b"z")

"""The hash table of ordered rows, held against a dict."""

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore_core.engine.ordered import OrderedRows

KEYS = st.integers(0, 150).map(b"%d".__mod__)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "remove", "remove"]), KEYS), max_size=600
)


def items(rows):
    return list(zip(*(rows.view().scan().next_chunk() or ((), ())), strict=True))


@given(CHANGES)
def test_it_has_the_rows_of_a_dict(changes):
    rows, model = OrderedRows(for_lookups=True), {}
    for number, (change, key) in enumerate(changes):
        if change == "put":
            rows.put(key, number)
            model[key] = number
        else:
            assert rows.remove(key) == (model.pop(key, None) is not None)
        assert len(rows) == len(rows.table) == len(model)
    assert items(rows) == sorted(model.items())
    copy = rows.copy()
    for key in list(model)[::2]:
        rows.remove(key)
    assert items(copy) == sorted(model.items())
    for key in list(model)[::2]:
        assert copy.table.get(key) == model.pop(key)
    for number in range(152):
        assert rows.table.get(b"%d" % number) == model.get(b"%d" % number)


@given(st.lists(KEYS, min_size=1, unique=True), st.data())
def test_a_removal_leaves_every_other_key_reachable(keys, data):
    rows = OrderedRows(for_lookups=True)
    for key in keys:
        rows.put(key, key)
    gone = data.draw(st.sampled_from(keys))
    rows.remove(gone)
    assert [rows.table.get(key) for key in keys] == [key if key != gone else None for key in keys]


def test_many_keys_of_all_sizes():
    rows = OrderedRows(for_lookups=True)
    keys = [b"%d" % number * (number % 40) for number in range(1, 50_000)]
    for key in keys:
        rows.put(key, len(key))
    assert all(rows.table.get(bytes(bytearray(key))) == len(key) for key in keys)
    assert rows.table.get(b"no") is None
    for key in keys:
        rows.remove(key)
    assert len(rows) == 0
    assert items(rows) == []
    rows.put(b"", b"empty")
    assert rows.table.get(b"") == b"empty"


def test_its_memory_shrinks_with_its_rows():
    keys = [b"%d" % number for number in range(50_000)]
    tracemalloc.start()
    try:
        rows = OrderedRows(for_lookups=True)
        for key in keys:
            rows.put(key, None)
        filled, _ = tracemalloc.get_traced_memory()
        for key in keys[10:]:
            rows.remove(key)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert filled > 1_000_000
    assert left < 10_000
    assert [rows.table.get(key) for key in keys[10:]] == [None] * 49_990
    assert items(rows) == [(key, None) for key in keys[:10]]


def test_it_keeps_and_frees_its_objects():
    key, one, other = b"".join([b"a key"]), object(), object()

    def counts():
        """The references to each object, beyond those of this test."""
        return [sys.getrefcount(thing) - least for thing, least in zip(things, base, strict=True)]

    things, base = (key, one, other), (0, 0, 0)
    base = counts()
    rows = OrderedRows(for_lookups=True)
    for value in (one, one, other, other, one):
        rows.put(key, value)
    del value
    assert counts() == [1, 1, 0]
    rows.put(bytes(bytearray(key)), other)  # the first key stays
    assert counts() == [1, 0, 1]
    rows.remove(key)
    assert counts() == [0, 0, 0]
    rows.put(key, one)
    assert counts() == [1, 1, 0]
    del rows
    assert counts() == [0, 0, 0]


@pytest.mark.parametrize("key", [None, "a", 1, bytearray(b"a")])
def test_a_key_is_bytes(key):
    rows = OrderedRows(for_lookups=True)
    with pytest.raises(TypeError):
        rows.table.get(key)
    with pytest.raises(TypeError):
        rows.put(key, 1)
    assert len(rows) == 0

"""The waist: tables over staged namespaces, and layers over tables."""

import pytest

from kstore_core.discovery.registry import make_engine
from kstore_core.tables import Bounds, Layer, NamespaceTable, Table, Write
from kstore_core.tables.staging import StagedNamespace, Staging
from kstore_core.types import RecordContext


@pytest.fixture
def database():
    return make_engine("memory").open(".", "s")


@pytest.fixture
def table(database):
    return NamespaceTable(StagedNamespace(Staging(-1), database, "default"))


def items(chunks):
    return [pair for chunk in chunks for pair in zip(*chunk, strict=True)]


def test_writes_are_made_in_their_order(table):
    context = RecordContext("t", 0, 1)
    table.write([Write(b"a", b"1"), Write(b"b", b"2", context), Write(b"a", None)])
    assert items(table.scan(Bounds())) == [(b"b", b"2")]
    assert table.get(b"a") is None


def test_put_one_is_a_write_of_one(table):
    table.put_one(b"a", b"1")
    assert table.get(b"a") == b"1"
    table.put_one(b"a", None)
    assert table.get_many([b"a", b"b"]) == [None, None]


def test_bounds_are_half_open_and_both_ways(table):
    table.write([Write(bytes([number]), b"") for number in range(5)])
    assert [k for k, _ in items(table.scan(Bounds(b"\1", b"\3")))] == [b"\1", b"\2"]
    assert [k for k, _ in items(table.scan(Bounds(b"\1", b"\3", reverse=True)))] == [b"\2", b"\1"]
    assert table.first(b"\3") == (b"\3", b"")


def test_a_load_goes_past_the_staging(table):
    assert table.load([([b"a", b"b"], [b"1", b"2"]), ([b"c"], [b"3"])]) == 3
    assert table.rows.staged().keys == []
    assert table.approximate_count() == 3


FACE = {name for name in vars(Table) if not name.startswith("_")}


def test_a_layer_knows_the_whole_face_of_a_table():
    assert {*Layer.__annotations__, "points"} == FACE


def test_a_layer_that_defines_nothing_is_the_table_below(table):
    layer = Layer(table)
    for name in FACE:
        assert getattr(layer, name) == getattr(table, name)
    layer.put_one(b"k", b"v")
    assert items(layer.scan(Bounds())) == [(b"k", b"v")]
    assert layer.first() == (b"k", b"v")


class Shouting(Layer):
    """Stores upper case and reads it back in lower case."""

    def get(self, key):
        value = self.below.get(key)
        return value and value.lower()

    def write(self, writes):
        self.below.write([Write(w.key, w.value and w.value.upper(), w.context) for w in writes])

    def scan(self, bounds):
        for keys, values in self.below.scan(bounds):
            yield keys, [value.lower() for value in values]


def test_special_cases_go_by_way_of_what_a_layer_defines(table):
    layer = Shouting(table)
    layer.put_one(b"a", b"x")
    assert layer.load([([b"b", b"c"], [b"y", b"z"])]) == 2
    assert items(table.scan(Bounds())) == [(b"a", b"X"), (b"b", b"Y"), (b"c", b"Z")]
    assert layer.get_many([b"a", b"?", b"b"]) == [b"x", None, b"y"]
    assert layer.first() == (b"a", b"x")
    assert layer.first(b"a\0", None, reverse=True) == (b"c", b"z")
    assert layer.first(b"d") is None
    layer.delete_range(b"a", b"c")
    assert items(layer.scan(Bounds())) == [(b"c", b"z")]


def test_a_load_through_a_layer_has_to_ascend(table):
    with pytest.raises(ValueError, match="not ascending"):
        Shouting(table).load([([b"b"], [b"1"]), ([b"b"], [b"2"])])


def test_layers_stand_on_layers(table):
    upper = Shouting(Shouting(table))
    upper.put_one(b"k", b"v")
    assert table.get(b"k") == b"V"
    assert upper.get(b"k") == b"v"
    assert upper.rows is table.rows

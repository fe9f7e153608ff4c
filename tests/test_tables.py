"""The waist: tables over staged namespaces, and what a database may hold when it is opened."""

import pytest

from kstore_core import formats
from kstore_core.engine import Rows
from kstore_core.errors import FormatDowngradeError, InconsistentStateError, UnsupportedError
from kstore_core.registry import make_engine
from kstore_core.staging import StagedNamespace, Staging
from kstore_core.tables import Bounds, NamespaceTable, Write, open_table
from kstore_core.types import RecordContext

KEY_VALUE = [formats.PLAIN, formats.TIMESTAMPED, formats.TIMESTAMPED_HEADERS]


@pytest.fixture
def database():
    return make_engine("memory").open(".", "s")


@pytest.fixture
def table(database):
    return NamespaceTable(StagedNamespace(Staging(-1), database, "default"))


def holding(database, namespace, key=b"k"):
    database.namespace(namespace)
    database.write({namespace: Rows([key], [b"v"])})
    return database


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


@pytest.mark.parametrize("value_format", formats.FORMATS.values(), ids=lambda f: f.name)
def test_an_empty_database_opens_as_anything(database, value_format):
    table = open_table(database, Staging(-1), value_format, writable=True)
    assert table.rows.name == value_format.namespace
    assert value_format.namespace in database.namespaces()


@pytest.mark.parametrize("value_format", formats.FORMATS.values(), ids=lambda f: f.name)
def test_rows_of_a_format_are_found_again(database, value_format):
    holding(database, value_format.namespace)
    table = open_table(database, Staging(-1), value_format, writable=False)
    assert items(table.scan(Bounds())) == [(b"k", b"v")]


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (newer, older)
        for newer in formats.FORMATS.values()
        for older in formats.FORMATS.values()
        if older.name in newer.upgrades_from
    ],
    ids=lambda f: f.name,
)
@pytest.mark.parametrize("writable", [False, True])
def test_a_newer_format_is_refused_even_empty(database, held, asked, writable):
    database.namespace(held.namespace)
    before = set(database.namespaces())
    with pytest.raises(FormatDowngradeError, match=f"holds the format '{held.name}'"):
        open_table(database, Staging(-1), asked, writable=writable)
    assert set(database.namespaces()) == before


@pytest.mark.parametrize("value_format", [*KEY_VALUE, formats.VERSIONED, formats.VERSIONED_HEADERS])
def test_a_namespace_that_no_format_has_is_refused(database, value_format):
    database.namespace("somebody-elses")
    with pytest.raises(InconsistentStateError, match="unexpected namespace 'somebody-elses'"):
        open_table(database, Staging(-1), value_format, writable=True)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (formats.TIMESTAMPED, formats.VERSIONED),
        (formats.TIMESTAMPED_HEADERS, formats.VERSIONED_HEADERS),
        (formats.VERSIONED_HEADERS, formats.TIMESTAMPED),
    ],
)
def test_another_kind_of_store_is_refused(database, held, asked):
    holding(database, held.namespace)
    with pytest.raises(InconsistentStateError, match=held.namespace):
        open_table(database, Staging(-1), asked, writable=True)


def test_rows_of_two_older_formats_are_refused(database):
    holding(database, formats.PLAIN.namespace)
    holding(database, formats.TIMESTAMPED.namespace)
    with pytest.raises(InconsistentStateError, match=r"inconsistent .* plain and of timest"):
        open_table(database, Staging(-1), formats.TIMESTAMPED_HEADERS, writable=True)


@pytest.mark.parametrize("writable", [False, True])
def test_rows_of_one_older_format_are_not_upgraded_yet(database, writable):
    holding(database, formats.TIMESTAMPED.namespace)
    with pytest.raises(UnsupportedError, match="older format 'timestamped'"):
        open_table(database, Staging(-1), formats.TIMESTAMPED_HEADERS, writable=writable)


def test_reading_an_empty_older_store_makes_nothing(database):
    database.namespace("offsets")
    before = set(database.namespaces())
    table = open_table(database, Staging(-1), formats.TIMESTAMPED_HEADERS, writable=False)
    assert items(table.scan(Bounds())) == []
    assert set(database.namespaces()) == before
    with pytest.raises(UnsupportedError):
        table.put_one(b"k", b"v")

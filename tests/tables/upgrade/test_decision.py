"""What a database may hold when it is opened, and which table reads it."""

import logging

import pytest

from kstore_core import formats, open_state, stores
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import (
    ForkedHandleError,
    FormatDowngradeError,
    InconsistentStateError,
    SpecError,
    StorageFullError,
    UnsupportedError,
)
from kstore_core.tables import Bounds, NamespaceTable
from kstore_core.tables.staging import Staging
from kstore_core.tables.upgrade.decision import Layout, look_at, open_table
from kstore_core.tables.upgrade.dual import DualTable
from kstore_core.testing.faults import Faults, FaultyEngine
from tests.typed.processes import in_a_child

PLAIN, TIMESTAMPED, HEADERS = formats.PLAIN, formats.TIMESTAMPED, formats.TIMESTAMPED_HEADERS
VERSIONED, VERSIONED_HEADERS = formats.VERSIONED, formats.VERSIONED_HEADERS
SESSION_HEADERS = formats.SESSION_HEADERS
EDGES = [
    (formats.by_name(older), newer)
    for newer in formats.FORMATS.values()
    for older in newer.upgrades
]


@pytest.fixture
def database(engine, tmp_path):
    made = make_engine(engine)
    opened = made.open(tmp_path, "s")
    yield opened
    opened.close()


def row_of(value_format):
    """A key and a value that some store of the format could hold."""
    key = b"\xff" * 8 + b"k" if value_format.versioned else b"k"
    return key, bytes(8) + b"v"


def holding(database, *held):
    for value_format in held:
        key, value = row_of(value_format)
        database.namespace(value_format.namespace)
        database.write({value_format.namespace: Rows([key], [value])})
    return database


def items(chunks):
    return [pair for chunk in chunks for pair in zip(*chunk, strict=True)]


@pytest.mark.parametrize("value_format", formats.FORMATS.values(), ids=lambda f: f.name)
def test_an_empty_database_opens_as_anything(database, value_format):
    table = open_table(database, Staging(-1), value_format, writable=True)
    assert isinstance(table, NamespaceTable)
    assert table.rows.name == value_format.namespace
    assert value_format.namespace in database.namespaces()


@pytest.mark.parametrize("value_format", formats.FORMATS.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("writable", [False, True])
def test_rows_of_a_format_are_found_again(database, value_format, writable):
    holding(database, value_format)
    table = open_table(database, Staging(-1), value_format, writable=writable)
    assert items(table.scan(Bounds())) == [row_of(value_format)]


@pytest.mark.parametrize(
    ("held", "asked"), [(new, old) for old, new in EDGES], ids=lambda f: f.name
)
@pytest.mark.parametrize("writable", [False, True])
def test_a_newer_format_is_refused_even_empty(database, held, asked, writable):
    database.namespace(held.namespace)
    before = set(database.namespaces())
    with pytest.raises(FormatDowngradeError, match=f"has the format '{held.name}'"):
        open_table(database, Staging(-1), asked, writable=writable, shape=held.shapes[0])
    assert set(database.namespaces()) == before


@pytest.mark.parametrize("value_format", formats.FORMATS.values(), ids=lambda f: f.name)
def test_a_namespace_that_no_format_has_is_refused(database, value_format):
    database.namespace("somebody-elses")
    with pytest.raises(InconsistentStateError, match="unexpected namespace 'somebody-elses'"):
        open_table(database, Staging(-1), value_format, writable=True)


@pytest.mark.parametrize(
    ("held", "asked"),
    [(TIMESTAMPED, VERSIONED), (HEADERS, VERSIONED_HEADERS), (VERSIONED_HEADERS, TIMESTAMPED)],
)
def test_another_kind_of_store_is_refused(database, held, asked):
    holding(database, held)
    with pytest.raises(InconsistentStateError, match=held.namespace):
        open_table(database, Staging(-1), asked, writable=True)


@pytest.mark.parametrize(
    ("held", "asked", "shape"),
    [
        (SESSION_HEADERS, PLAIN, "window"),
        (SESSION_HEADERS, PLAIN, "key_value"),
        (HEADERS, PLAIN, "session"),
    ],
)
def test_the_kin_of_a_plain_format_are_those_of_its_shape(database, held, asked, shape):
    holding(database, held)
    with pytest.raises(InconsistentStateError, match=f"no format of a {shape.replace('_', '-')}"):
        open_table(database, Staging(-1), asked, writable=True, shape=shape)


@pytest.mark.parametrize(("older", "newer"), EDGES, ids=lambda f: f.name)
@pytest.mark.parametrize("writable", [False, True])
def test_rows_of_an_older_format_open_in_upgrade_mode(database, older, newer, writable):
    holding(database, older)
    before = set(database.namespaces())
    table = open_table(database, Staging(-1), newer, writable=writable)
    assert isinstance(table, DualTable)
    key, value = row_of(older)
    assert items(table.scan(Bounds())) == [(key, newer.upgrades[older.name](key, value))]
    made = {newer.namespace} if writable else set()
    assert set(database.namespaces()) == before | made


# The rows of Kafka's table that concern two older formats at once.


def test_plain_rows_beside_an_empty_timestamped_namespace_are_refused_as_headers(database):
    holding(database, PLAIN).namespace(TIMESTAMPED.namespace)
    with pytest.raises(
        InconsistentStateError, match=r"rows of plain, and also an empty .* --to timestamped$"
    ):
        open_table(database, Staging(-1), HEADERS, writable=True)
    assert isinstance(open_table(database, Staging(-1), TIMESTAMPED, writable=True), DualTable)


def test_rows_of_two_older_formats_are_refused(database):
    holding(database, PLAIN, TIMESTAMPED)
    with pytest.raises(InconsistentStateError, match=r"rows of plain and of timest.* kstore upgr"):
        open_table(database, Staging(-1), HEADERS, writable=True)


def test_where_the_newest_namespace_is_there_too_the_upgrade_to_finish_is_to_that(database):
    holding(database, PLAIN, TIMESTAMPED, HEADERS)
    with pytest.raises(InconsistentStateError, match="--to timestamped_headers"):
        open_table(database, Staging(-1), HEADERS, writable=True)


def test_an_empty_older_namespace_is_dropped_by_a_writable_open_only(database):
    database.namespace(TIMESTAMPED.namespace)
    assert look_at(database, HEADERS) == Layout(None, (TIMESTAMPED.namespace,))
    open_table(database, Staging(-1), HEADERS, writable=False)
    assert TIMESTAMPED.namespace in database.namespaces()
    table = open_table(database, Staging(-1), HEADERS, writable=True)
    assert isinstance(table, NamespaceTable)
    assert set(database.namespaces()) == {"default", HEADERS.namespace}


def test_an_older_namespace_with_rows_is_kept_and_so_is_default(database):
    holding(database, TIMESTAMPED)
    open_table(database, Staging(-1), HEADERS, writable=True)
    assert set(database.namespaces()) == {"default", TIMESTAMPED.namespace, HEADERS.namespace}


@pytest.mark.parametrize(
    ("held", "asked", "mode"),
    [
        ([], PLAIN, "regular mode"),
        ([], TIMESTAMPED, "regular mode"),
        ([], HEADERS, "regular headers-aware mode"),
        ([PLAIN], TIMESTAMPED, "upgrade mode"),
        ([PLAIN], HEADERS, "upgrade mode from plain key value store"),
        ([TIMESTAMPED], HEADERS, "upgrade mode from timestamped store"),
        ([VERSIONED], VERSIONED_HEADERS, "upgrade mode from versioned store"),
    ],
)
def test_the_log_says_which_mode_a_store_opens_in(database, held, asked, mode, caplog):
    holding(database, *held)
    with caplog.at_level(logging.INFO, "kstore_core"):
        open_table(database, Staging(-1), asked, writable=True)
    assert [record.message for record in caplog.records] == [f"Opening store s in {mode}"]


def test_reading_an_empty_older_store_makes_nothing(database):
    database.namespace("offsets")
    before = set(database.namespaces())
    table = open_table(database, Staging(-1), HEADERS, writable=False)
    assert items(table.scan(Bounds())) == []
    assert table.get(b"k") is None
    assert table.get_many([b"k"]) == [None]
    assert table.first() is None
    assert table.approximate_count() == 0
    assert set(database.namespaces()) == before
    with pytest.raises(UnsupportedError):
        table.put_one(b"k", b"v")


# From a state directory.


OLD_SPEC, NEW_SPEC = stores.key_value("s"), stores.timestamped_key_value_with_headers("s")


@pytest.fixture
def old_home(home):
    with home.open() as state:
        state.open(OLD_SPEC).put(b"k", b"v")
    return home


@pytest.mark.parametrize(
    ("directory", "store", "moves"),
    [({}, None, True), ({}, False, False), (False, None, False), (False, True, True)],
)
def test_a_store_may_say_otherwise_than_its_directory_whether_reads_move(
    old_home, directory, store, moves
):
    arguments = {} if directory == {} else {"migrate_on_read": directory}
    with old_home.open(**arguments) as state:
        opened = state.open(NEW_SPEC, migrate_on_read=store)
        assert opened.get(b"k").value == b"v"
        assert (state.staged_bytes > 0) is moves
        assert state.open(NEW_SPEC) is opened
        with pytest.raises(SpecError, match=f"already open with migrate_on_read={moves}"):
            state.open(NEW_SPEC, migrate_on_read=not moves)


def test_both_namespaces_are_refused_in_a_fork(old_home):
    with old_home.open() as state:
        store = state.open(NEW_SPEC)
        assert in_a_child(lambda: store.get(b"k")) == ForkedHandleError.__name__
        assert in_a_child(lambda: store.put(b"l", b"", timestamp=1)) == ForkedHandleError.__name__
        assert store.get(b"k").value == b"v"


def test_after_a_full_disk_both_namespaces_are_there_again():
    engine = FaultyEngine(make_engine("memory"), Faults())
    with open_state("x", engine=engine) as state:
        state.open(OLD_SPEC).put_all([(b"k", b"v"), (b"l", b"w")])
    with open_state("x", engine=engine) as state:
        store = state.open(NEW_SPEC)
        store.put(b"m", b"x", timestamp=1)
        assert store.get(b"k").value == b"v"
        engine.faults.fail("write", error=StorageFullError)
        with pytest.raises(StorageFullError):
            state.commit()
        state.commit()
        assert [key for key, _ in store.all()] == [b"k", b"l", b"m"]
        assert store.get(b"l").value == b"w"
    with open_state("x", engine=engine, read_only=True) as state:
        assert len(list(state.open(NEW_SPEC).all())) == 3

"""New rows over old ones: every operation of a table in the middle of an upgrade."""

from __future__ import annotations

import sys
import threading

import pytest

from kstore_core import formats
from kstore_core.discovery.registry import make_engine
from kstore_core.engine import Rows
from kstore_core.errors import (
    FormatError,
    StoreClosedError,
    UncommittedLimitError,
    UnsupportedError,
)
from kstore_core.tables import Bounds, Write
from kstore_core.tables.staging import Staging, take
from kstore_core.tables.upgrade.decision import open_table
from kstore_core.tables.upgrade.dual import DualTable

OLDER, NEWER = formats.TIMESTAMPED, formats.TIMESTAMPED_HEADERS
OLD, NEW = OLDER.namespace, NEWER.namespace


def old(value: bytes) -> bytes:
    return bytes(8) + value


def new(value: bytes) -> bytes:
    return b"\x00" + old(value)


class Store:
    """A database with rows of both formats, and tables over it."""

    def __init__(self, database):
        self.database = database
        self.staging = Staging(-1)

    def hold(self, olds, news):
        for namespace, rows in ((OLD, olds), (NEW, news)):
            self.database.namespace(namespace)
            keys = sorted(rows)
            self.database.write({namespace: Rows(keys, [rows[key] for key in keys])})

    def open(self, max_bytes=-1, *, transactional=False, **arguments):
        self.staging = Staging(max_bytes, transactional)
        arguments.setdefault("writable", True)
        self.table = open_table(self.database, self.staging, NEWER, **arguments)
        assert isinstance(self.table, DualTable)
        self.staging.stores.append(self)
        return self.table

    def spill(self):
        namespaces = self.table.namespaces
        taken = take(namespaces)
        batch = {space.name: rows for space, rows in zip(namespaces, taken, strict=True) if rows}
        self.database.write(batch)
        for namespace, rows in zip(namespaces, taken, strict=True):
            namespace.clear(rows)

    def stored(self):
        """The rows of each namespace in the engine, those that are staged left out."""
        return tuple(dict(items(self.database.namespace(name).scan())) for name in (OLD, NEW))


@pytest.fixture
def store(engine, tmp_path):
    database = make_engine(engine).open(tmp_path, "s")
    yield Store(database)
    database.close()


@pytest.fixture
def half(store):
    """Keys a and c are old, b and d are new."""
    store.hold({b"a": old(b"1"), b"c": old(b"3")}, {b"b": new(b"2"), b"d": new(b"4")})
    return store


def items(chunks):
    return [pair for chunk in chunks for pair in zip(*chunk, strict=True)]


ALL = [(b"a", new(b"1")), (b"b", new(b"2")), (b"c", new(b"3")), (b"d", new(b"4"))]


def test_a_lookup_of_an_old_row_moves_it(half):
    table = half.open()
    assert table.get(b"a") == new(b"1")
    assert table.get(b"b") == new(b"2")
    assert table.get(b"?") is None
    half.spill()
    assert half.stored() == (
        {b"c": old(b"3")},
        {b"a": new(b"1"), b"b": new(b"2"), b"d": new(b"4")},
    )


def test_many_lookups_move_what_is_old(half):
    table = half.open()
    keys = [b"d", b"c", b"?", b"c", b"a"]
    wanted = [new(b"4"), new(b"3"), None, new(b"3"), new(b"1")]
    assert table.get_many(keys) == wanted
    assert table.get_many(keys) == wanted
    assert table.get_many([]) == []
    half.spill()
    assert half.stored() == ({}, dict(ALL))


@pytest.mark.parametrize("arguments", [{"migrate_on_read": False}, {"writable": False}])
def test_lookups_that_do_not_move_stage_nothing(half, arguments):
    table = half.open(0, transactional=True, **arguments)
    for _ in range(2):
        assert table.get(b"a") == new(b"1")
        assert table.get_many([b"c", b"b"]) == [new(b"3"), new(b"2")]
    assert half.staging.staged_bytes == 0
    assert not any(take(table.namespaces))


def test_a_put_or_a_delete_removes_the_old_row(half):
    table = half.open(migrate_on_read=False)
    table.put_one(b"a", new(b"x"))
    table.put_one(b"c", None)
    table.put_one(b"d", None)
    table.put_one(b"e", new(b"5"))
    half.spill()
    assert half.stored() == ({}, {b"a": new(b"x"), b"b": new(b"2"), b"e": new(b"5")})


def test_writes_are_made_in_their_order_and_remove_old_rows(half):
    table = half.open(migrate_on_read=False)
    table.write([Write(b"a", new(b"x")), Write(b"c", new(b"y")), Write(b"a", None)])
    assert items(table.scan(Bounds())) == [(b"b", new(b"2")), (b"c", new(b"y")), (b"d", new(b"4"))]
    half.spill()
    assert half.stored() == ({}, {b"b": new(b"2"), b"c": new(b"y"), b"d": new(b"4")})


def test_scans_merge_both_ways_and_move_nothing(half):
    table = half.open()
    assert items(table.scan(Bounds())) == ALL
    assert items(table.scan(Bounds(reverse=True))) == ALL[::-1]
    assert items(table.scan(Bounds(b"b", b"d"))) == ALL[1:3]
    assert items(table.scan(Bounds(b"a\0", b"d", reverse=True))) == ALL[2:0:-1]
    assert items(table.scan(Bounds(b"e"))) == []
    assert half.staging.staged_bytes == 0


def test_the_first_row_is_the_least_of_both(half):
    table = half.open()
    assert table.first() == ALL[0]
    assert table.first(b"b") == ALL[1]
    assert table.first(reverse=True) == ALL[3]
    assert table.first(None, b"d", reverse=True) == ALL[2]
    assert table.first(b"e") is None
    assert half.staging.staged_bytes == 0


def test_of_a_row_that_both_hold_the_new_one_counts(store):
    store.hold({b"k": old(b"old"), b"l": old(b"l")}, {b"k": new(b"new")})
    table = store.open()
    assert table.get(b"k") == new(b"new")
    assert table.get_many([b"k"]) == [new(b"new")]
    for reverse in (False, True):
        wanted = [(b"k", new(b"new")), (b"l", new(b"l"))]
        assert items(table.scan(Bounds(reverse=reverse))) == wanted[:: -1 if reverse else 1]
    assert table.first() == (b"k", new(b"new"))
    assert table.first(None, b"l", reverse=True) == (b"k", new(b"new"))
    table.put_one(b"k", None)
    assert table.get(b"k") is None


def test_a_range_is_deleted_from_both(half):
    table = half.open()
    table.delete_range(b"b", b"d")
    assert items(table.scan(Bounds())) == [ALL[0], ALL[3]]
    assert table.get(b"c") is None
    half.spill()
    assert half.stored() == ({b"a": old(b"1")}, {b"d": new(b"4")})
    table.delete_range(b"", None)
    half.spill()
    assert half.stored() == ({}, {})


def test_a_load_ends_in_the_new_namespace_and_is_gone_from_the_old(half):
    table = half.open()
    chunks = [([b"a", b"b"], [new(b"x"), new(b"y")]), ([b"bb"], [new(b"z")])]
    assert table.load(chunks) == 3
    wanted = {b"a": new(b"x"), b"b": new(b"y"), b"bb": new(b"z"), b"d": new(b"4")}
    assert half.stored() == ({b"c": old(b"3")}, wanted)
    assert items(table.scan(Bounds())) == sorted([*wanted.items(), ALL[2]])


def test_a_load_of_keys_that_do_not_ascend_is_refused_and_loses_nothing(half):
    table = half.open()
    with pytest.raises(ValueError, match="ascending"):
        table.load([([b"c", b"a"], [new(b"x"), new(b"y")])])
    assert table.get(b"a") == new(b"1")
    assert table.get(b"c") in (new(b"3"), new(b"x"))


def test_what_is_staged_stays_above_what_is_loaded(half):
    table = half.open()
    table.put_one(b"a", new(b"staged"))
    table.put_one(b"c", None)
    table.load([([b"a", b"c"], [new(b"x"), new(b"y")])])
    assert table.get_many([b"a", b"c"]) == [new(b"staged"), None]


def test_counts_are_added(half):
    assert half.open().approximate_count() == 4


def test_an_old_row_that_cannot_be_read_is_an_error_and_can_be_replaced(store):
    store.hold({b"bad": b"short", b"good": old(b"v")}, {})
    table = store.open()
    for read in (
        lambda: table.get(b"bad"),
        lambda: table.get_many([b"good", b"bad"]),
        lambda: items(table.scan(Bounds())),
        lambda: table.first(),
    ):
        with pytest.raises(FormatError, match="b'bad' cannot be upgraded"):
            read()
    assert table.get(b"good") == new(b"v")
    table.put_one(b"bad", new(b"v"))
    assert len(items(table.scan(Bounds()))) == 2


def test_a_closed_table_refuses_everything(half):
    table = half.open()
    scan = table.scan(Bounds())
    for namespace in table.namespaces:
        namespace.close()
    for use in (
        lambda: table.get(b"a"),
        lambda: table.get_many([b"a"]),
        lambda: table.put_one(b"a", b""),
        lambda: table.write([Write(b"a", b"")]),
        lambda: table.delete_range(b"a", None),
        lambda: table.scan(Bounds()),
        table.first,
        table.approximate_count,
        lambda: table.load([]),
    ):
        with pytest.raises(StoreClosedError):
            use()
    scan.close()
    scan.close()


def test_a_table_that_is_not_writable_refuses_writes(half):
    table = half.open(writable=False)
    for write in (
        lambda: table.put_one(b"a", b""),
        lambda: table.write([Write(b"a", b"")]),
        lambda: table.delete_range(b"a", None),
        lambda: table.load([]),
    ):
        with pytest.raises(UnsupportedError, match="read_only"):
            write()
    assert items(table.scan(Bounds())) == ALL


# The budget. The key of a put is staged twice, as what is put and as what is removed.


def test_a_move_that_does_not_fit_is_not_made_and_the_value_is_read_all_the_same(half):
    size = len(b"a") + len(b"a") + len(new(b"1"))
    table = half.open(size - 1)
    for _ in range(2):
        assert table.get(b"a") == new(b"1")
        assert table.get_many([b"a", b"c"]) == [new(b"1"), new(b"3")]
    assert (half.staging.staged_bytes, half.staging.spills) == (0, 0)
    table = half.open(size)
    assert table.get_many([b"a", b"c"]) == [new(b"1"), new(b"3")]
    assert (half.staging.staged_bytes, half.staging.spills) == (size, 0)
    half.spill()
    assert half.stored()[0] == {b"c": old(b"3")}


def test_a_refused_write_stages_neither_half(half):
    table = half.open(8, transactional=True, migrate_on_read=False)
    with pytest.raises(UncommittedLimitError):
        table.put_one(b"a", new(b"x"))
    with pytest.raises(UncommittedLimitError):
        table.write([Write(b"a", new(b"x")), Write(b"c", None)])
    assert half.staging.staged_bytes == 0
    assert items(table.scan(Bounds())) == ALL


def test_a_spill_never_parts_a_row_from_the_removal_of_its_older_self(half):
    """With every budget, whatever the spill wrote is a store with each key in one place."""
    for budget in range(40):
        table = half.open(budget, migrate_on_read=budget % 2 == 0)
        for key, number in ((b"a", b"x"), (b"c", b"y"), (b"a", b"z")):
            table.put_one(key, new(number))
            olds, news = half.stored()
            assert not olds.keys() & news.keys()
            assert olds.keys() | news.keys() == {b"a", b"b", b"c", b"d"}
        table.write([Write(b"a", new(b"1")), Write(b"c", new(b"3"))])
        half.spill()
        half.hold({b"a": old(b"1"), b"c": old(b"3")}, {b"a": None, b"c": None})


def test_room_is_made_for_both_halves(half):
    pair = len(b"a") + len(b"a") + len(new(b"1"))
    table = half.open(2 * pair - 1)
    for key in (b"a", b"c", b"e"):
        table.put_one(key, new(b"1"))
        assert half.staging.staged_bytes == pair
    table.write([Write(b"a", new(b"1"))])
    assert half.staging.staged_bytes == pair
    assert half.staging.spills == 3


@pytest.mark.parametrize("row", [("a", b"1"), (None, b"1"), (b"a", "1"), (b"a", 1)])
def test_only_bytes_are_staged(half, row):
    table = half.open()
    with pytest.raises(TypeError):
        table.put_one(*row)
    with pytest.raises(TypeError):
        table.write([Write(b"b", b"1"), Write(*row)])
    assert half.staging.staged_bytes == 0


# Threads.


@pytest.fixture
def impatient():
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("read", ["get", "get_many", "scan", "first"])
def test_a_reader_beside_a_mover_misses_nothing(store, read):
    keys = [b"%04d" % number for number in range(1500)]
    store.hold({key: old(key) for key in keys}, {})
    table = store.open()
    faults = []
    moved = threading.Event()

    def look(key):
        if read == "get":
            return table.get(key)
        if read == "get_many":
            return table.get_many([b"?", key])[1]
        if read == "first":
            row = table.first(key, key + b"\0")
            return row and row[1]
        return dict(items(table.scan(Bounds(key, key + b"\0")))).get(key)

    def reader():
        while not moved.is_set():
            faults.extend(key for key in keys[::7] if look(key) != new(key))

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number, key in enumerate(keys):
        table.get(key)
        if number % 100 == 0:
            store.spill()
    moved.set()
    for thread in threads:
        thread.join()
    assert faults == []
    table.get_many(keys)  # a move is left out where another thread's came in between
    store.spill()
    assert store.stored() == ({}, {key: new(key) for key in keys})


@pytest.mark.usefixtures("impatient")
def test_a_read_never_undoes_a_write_of_another_thread(store):
    keys = [b"%04d" % number for number in range(2000)]
    store.hold({key: old(b"old") for key in keys}, {})
    table = store.open()
    done = threading.Event()

    def reader():
        while not done.is_set():
            for key in keys:
                table.get(key)
            table.get_many(keys[:50])

    thread = threading.Thread(target=reader)
    thread.start()
    for number, key in enumerate(keys):
        table.put_one(key, None if number % 2 else new(b"new"))
    done.set()
    thread.join()
    assert table.get_many(keys) == [None if n % 2 else new(b"new") for n in range(len(keys))]


@pytest.mark.usefixtures("impatient")
def test_a_commit_beside_a_mover_takes_both_halves(store):
    keys = [b"%04d" % number for number in range(1000)]
    store.hold({key: old(key) for key in keys}, {})
    table = store.open()
    done = threading.Event()

    def mover():
        for key in keys:
            table.get(key)
        done.set()

    thread = threading.Thread(target=mover)
    thread.start()
    while not done.is_set():
        store.spill()
        olds, news = store.stored()
        assert not olds.keys() & news.keys()
        assert len(olds) + len(news) == len(keys)
    thread.join()


class Meddling:
    """A namespace whose first lookup is followed at once by what another thread might do."""

    def __init__(self, base, todo):
        self._base, self._todo = base, todo

    def __getattr__(self, name):
        return getattr(self._base, name)

    @property
    def fast_get(self):
        return self.get

    def get(self, key):
        return self._afterwards(self._base.get(key))

    def get_many(self, keys):
        return self._afterwards(self._base.get_many(keys))

    def scan(self, *bounds, **way):
        return self._afterwards(self._base.scan(*bounds, **way))

    def first(self, *bounds, **way):
        return self._afterwards(self._base.first(*bounds, **way))

    def _afterwards(self, found):
        if self._todo:
            self._todo.pop()()
        return found


@pytest.fixture
def meddle_with(half, monkeypatch):
    """Opens the table so that something happens once after the first lookup in some namespaces."""

    def meddle_with(names, meddle):
        real = half.database.namespace
        todo = []
        meddling = {name: Meddling(real(name), todo) for name in names}
        monkeypatch.setattr(
            half.database, "namespace", lambda name: meddling.get(name) or real(name)
        )
        table = half.open()
        todo.append(lambda: meddle(table))
        return table

    return meddle_with


@pytest.fixture(params=["get", "get_many"])
def look(request):
    if request.param == "get":
        return lambda table, key: table.get(key)
    return lambda table, key: table.get_many([b"?", key])[1]


@pytest.mark.parametrize("value", [new(b"x"), None])
def test_what_is_written_during_a_lookup_is_not_undone_by_its_move(meddle_with, look, value):
    table = meddle_with([OLD], lambda table: table.put_one(b"a", value))
    assert look(table, b"a") == new(b"1")
    assert table.get(b"a") == value


def test_a_row_that_moves_during_a_lookup_is_found(meddle_with, look):
    table = meddle_with([NEW], lambda table: table.get(b"a"))
    assert look(table, b"a") == new(b"1")


def test_a_row_that_moves_while_a_scan_begins_is_in_it(meddle_with):
    table = meddle_with([OLD, NEW], lambda table: table.get(b"a"))
    assert items(table.scan(Bounds())) == ALL


def test_a_row_that_moves_while_the_first_is_looked_for_is_found(meddle_with):
    table = meddle_with([OLD, NEW], lambda table: table.get(b"a"))
    assert table.first() == ALL[0]

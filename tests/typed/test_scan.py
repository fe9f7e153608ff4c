"""Scans: lazy, a moment of the store, iterators and context managers, and Arrow tables."""

import pyarrow as pa
import pytest

from kstore_core import Headers, open_state, serdes, stores
from kstore_core.errors import FormatError, StoreClosedError
from kstore_core.tables.scan import Scan
from tests.typed.kinds import TIME


@pytest.fixture
def filled(store, state, kind):
    """A hundred rows: the even ones stored, the odd ones staged."""
    for number in range(0, 100, 2):
        store.put(b"%03d" % number, kind.wrap(b"%d" % number))
    state.commit()
    for number in range(1, 100, 2):
        store.put(b"%03d" % number, kind.wrap(b"%d" % number))
    return store


def test_a_scan_is_an_iterator(filled, kind):
    scan = filled.all()
    assert iter(scan) is scan
    assert next(scan) == (b"000", kind.wrap(b"0"))
    assert next(scan) == (b"001", kind.wrap(b"1"))
    assert len(list(scan)) == 98


def test_peek_gives_what_next_takes(filled, kind):
    scan = filled.range(b"098", None)
    assert scan.peek() == scan.peek() == (b"098", kind.wrap(b"98"))
    assert next(scan) == (b"098", kind.wrap(b"98"))
    assert scan.peek() == next(scan) == (b"099", kind.wrap(b"99"))
    for _ in range(2):
        with pytest.raises(StopIteration):
            scan.peek()
        with pytest.raises(StopIteration):
            next(scan)


def test_an_exhausted_scan_stays_so_and_closes_quietly(filled):
    scan = filled.all()
    assert len(list(scan)) == 100
    assert list(scan) == []
    filled.put(b"999", filled.get(b"000"))
    assert list(scan) == []
    scan.close()
    scan.close()


def test_a_closed_scan_refuses(filled):
    scan = filled.all()
    next(scan)
    scan.close()
    scan.close()
    for use in (scan.__next__, scan.peek, scan.to_arrow):
        with pytest.raises(StoreClosedError):
            use()


def test_a_context_closes(filled):
    with filled.all() as scan:
        next(scan)
    with pytest.raises(StoreClosedError):
        next(scan)
    with pytest.raises(ZeroDivisionError), filled.all() as scan:
        _ = 1 / 0
    with pytest.raises(StoreClosedError):
        next(scan)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_shows_its_moment_whatever_is_written(filled, state, kind, reverse):
    scans = [filled.all(reverse=reverse) for _ in range(3)]
    wanted = list(filled.all(reverse=reverse))
    for number in range(100):
        filled.put(b"%03d" % number, kind.wrap(b"new"))
        filled.put(b"%03dx" % number, kind.wrap(b"new"))
    assert list(scans[0]) == wanted
    state.commit()
    assert list(scans[1]) == wanted
    for number in range(100):
        filled.delete(b"%03d" % number)
    state.commit()
    assert list(scans[2]) == wanted
    assert len(list(filled.all(reverse=reverse))) == 100


def test_a_scan_reads_only_what_it_is_asked_for():
    """A row that cannot be read is met when the scan comes to it, not before."""
    with open_state("x", engine="memory") as state:
        store = state.open(stores.key_value("s", value=serdes.INT64))
        store.put(b"a", 1)
        store.table.put_one(b"b", b"bad")
        store.put(b"c", 3)
        scan = store.all()
        assert next(scan) == (b"a", 1)
        with pytest.raises(FormatError):
            scan.peek()
        with pytest.raises(FormatError):
            next(scan)
        assert next(scan) == (b"c", 3)


def test_many_scans_may_be_open_at_once(filled):
    scans = [filled.all() for _ in range(50)]
    assert {next(scan)[0] for scan in scans} == {b"000"}
    assert [len(list(scan)) for scan in scans] == [99] * 50


def test_a_scan_is_made_by_stores_only():
    with pytest.raises(TypeError):
        Scan()


# Arrow.

COLUMNS = {
    "plain": ["key", "value"],
    "timestamped": ["key", "value", "timestamp"],
    "headers": ["key", "value", "timestamp", "headers"],
}


def rows_of(items, kind):
    for key, record in items:
        row = {"key": key, "value": record if kind.name == "plain" else record.value}
        if kind.name != "plain":
            row["timestamp"] = record.timestamp
        if kind.name == "headers":
            row["headers"] = [{"key": h.key, "value": h.value} for h in record.headers]
        yield row


def test_a_table_has_the_columns_of_the_format(filled, kind):
    table = filled.all().to_arrow()
    assert isinstance(table, pa.Table)
    assert table.column_names == COLUMNS[kind.name]
    assert table.to_pylist() == list(rows_of(filled.all(), kind))
    assert filled.range(b"5", b"4").to_arrow().schema == table.schema


def test_a_table_is_what_is_left(filled, kind):
    scan = filled.range(b"090", None, reverse=True)
    next(scan)
    scan.peek()
    table = scan.to_arrow()
    assert table["key"].to_pylist() == [b"%03d" % number for number in range(98, 89, -1)]
    assert scan.to_arrow().num_rows == 0
    assert list(scan) == []


@pytest.mark.parametrize(
    ("serde", "values", "arrow_type"),
    [
        (serdes.UTF8, ["a", "é", ""], pa.string()),
        (serdes.INT32, [1, -1, 2**31 - 1], pa.int32()),
        (serdes.INT64, [1, -1, 2**63 - 1], pa.int64()),
        (serdes.FLOAT64, [1.5, -0.0, 1e300], pa.float64()),
    ],
)
def test_columns_are_typed_by_their_serdes(state, kind, serde, values, arrow_type):
    store = state.open(kind.factory("t", key=serde, value=serde))
    for value in values:
        store.put(value, kind.wrap(value))
    table = store.all().to_arrow()
    assert table.schema.field("key").type == table.schema.field("value").type == arrow_type
    assert sorted(table["key"].to_pylist()) == sorted(values)
    assert table["value"].to_pylist() == table["key"].to_pylist()


def test_a_json_column_is_text(state, kind):
    store = state.open(kind.factory("t", value=serdes.JSON))
    store.put(b"k", kind.wrap({"total": 12}))
    assert store.all().to_arrow()["value"].to_pylist() == ['{"total":12}']


class Tagging:
    """A serde that reads the headers it has written."""

    name = "tagging"
    arrow_type = pa.string()

    def serialize(self, value, headers):
        headers.add("tag", value.encode())
        return value.encode()

    def deserialize(self, data, headers):
        return data.decode() + "+" + (headers.value("tag") or b"none").decode()


def test_a_table_holds_what_the_items_do_whatever_the_serde_reads(state):
    store = state.open(stores.timestamped_key_value_with_headers("t", value=Tagging()))
    store.put(b"k", "v", timestamp=TIME)
    ((_, record),) = store.all()
    assert record.value == "v+v"
    table = store.all().to_arrow()
    assert table["value"].to_pylist() == ["v+v"]
    assert list(record.headers) == [("tag", b"v")]
    assert isinstance(record.headers, Headers)


@pytest.mark.parametrize(
    "factory", [stores.versioned_key_value, stores.versioned_key_value_with_headers]
)
def test_a_table_of_versions(state, factory):
    store = state.open(factory("v", 10_000, value=serdes.FLOAT64))
    for timestamp in (10, 20):
        store.put(b"a", timestamp / 2, timestamp=timestamp)
    store.put(b"b", 7.0, timestamp=15)
    columns = ["key", "value", "timestamp", "valid_to"]
    if factory is stores.versioned_key_value_with_headers:
        store.put(b"c", 1.0, timestamp=5, headers=[("h", None)])
        columns.append("headers")
        assert store.range(b"c", None).to_arrow()["headers"].to_pylist() == [
            [{"key": "h", "value": None}]
        ]
        store.delete(b"c", timestamp=6)
    latest = store.all().to_arrow()
    assert latest.column_names == columns
    assert latest.drop_columns(columns[4:]).to_pylist() == [
        {"key": b"a", "value": 10.0, "timestamp": 20, "valid_to": None},
        {"key": b"b", "value": 7.0, "timestamp": 15, "valid_to": None},
    ]
    then = store.all(as_of=16, reverse=True).to_arrow()
    assert then.drop_columns(columns[4:]).to_pylist() == [
        {"key": b"b", "value": 7.0, "timestamp": 15, "valid_to": None},
        {"key": b"a", "value": 5.0, "timestamp": 10, "valid_to": 20},
    ]
    assert store.all(as_of=1).to_arrow().schema == latest.schema


def test_batches_are_the_table_in_parts(filled, kind):
    table = filled.all().to_arrow()
    for size in (1, 7, 100, 1000):
        batches = list(filled.all().to_arrow_batches(max_rows=size))
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert [batch.num_rows for batch in batches][:-1] == [size] * (len(batches) - 1)
        assert pa.Table.from_batches(batches).equals(table.combine_chunks())
    assert list(filled.range(b"5", b"4").to_arrow_batches()) == []


def test_a_batch_is_read_when_it_is_asked_for(filled, kind):
    scan = filled.all()
    batches = scan.to_arrow_batches(max_rows=10)
    assert next(batches)["key"].to_pylist() == [b"%03d" % number for number in range(10)]
    assert next(scan) == (b"010", kind.wrap(b"10"))
    scan.close()
    with pytest.raises(StoreClosedError):
        next(batches)


def test_a_table_of_some_columns(filled, kind):
    table = filled.all().to_arrow()
    for columns in (["value", "key"], ["key"], tuple(table.column_names[::-1])):
        assert filled.all().to_arrow(columns=columns).equals(table.select(list(columns)))
        (batch,) = filled.all().to_arrow_batches(columns=columns)
        assert batch.schema.names == list(columns)
    assert filled.range(b"5", b"4").to_arrow(columns=["key"]).column_names == ["key"]


@pytest.mark.parametrize("columns", [["nope"], ["key", "nope"], []])
def test_unknown_columns_are_refused(filled, columns):
    for read in (filled.all().to_arrow, filled.all().to_arrow_batches):
        with pytest.raises(ValueError, match="column"):
            read(columns=columns)


def test_columns_and_sizes_of_other_kinds_are_refused(filled):
    with pytest.raises(TypeError, match="list of names"):
        filled.all().to_arrow(columns="key")
    with pytest.raises(ValueError, match="max_rows must be at least 1, not 0"):
        filled.all().to_arrow_batches(max_rows=0)


def test_a_batch_of_large_rows_ends_early(state, kind):
    store = state.open(kind.factory("large"))
    for number in range(5):
        store.put(b"%d" % number, kind.wrap(b"v" * (15 << 20)))
    sizes = [batch.num_rows for batch in store.all().to_arrow_batches()]
    assert sizes == [3, 2]

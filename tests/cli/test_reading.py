"""get, dump and history on directories that kstore wrote."""

import datetime
from decimal import Decimal

import pytest

from kstore_core import open_state, serdes, stores


def test_get_shows_all_that_is_stored(run, written):
    ran = run("get", written, "orders", "o-1")
    assert ran.code == 0
    assert ran.lines == [
        "key        o-1",
        'value      {"total": 12}',
        "timestamp  1970-01-01T00:00:00.005Z",
        "header     a=x",
        "header     a=null",
    ]


def test_get_as_json(run, written):
    assert run("get", written, "orders", "o-1", "--json").document == {
        "key": "o-1",
        "value": {"total": 12},
        "timestamp": 5,
        "headers": [["a", "x"], ["a", None]],
    }


@pytest.mark.parametrize(
    ("as_of", "value", "valid_to"), [(1000, 1.5, 2000), (1999, 1.5, 2000), (2000, 1.25, 3000)]
)
def test_get_as_of(run, written, as_of, value, valid_to):
    found = run("get", written, "rates", "CHF", "--as-of", as_of, "--json").document
    assert (found["value"], found["valid_to"]) == (value, valid_to)


def test_get_as_of_an_instant(run, written):
    ran = run("get", written, "rates", "CHF", "--as-of", "1970-01-01T01:00:01+01:00", "--json")
    assert ran.document["value"] == 1.5


@pytest.mark.parametrize(
    "arguments",
    [
        ("rates", "CHF", "--as-of", "3500"),
        ("rates", "CHF", "--as-of", "999"),
        ("rates", "EEK"),
        ("orders", "o-2"),
        ("nothing", "x"),
    ],
)
def test_what_is_not_there_is_exit_code_1(run, written, arguments):
    ran = run("get", written, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("kstore: ")


def test_an_unknown_store_lists_those_there_are(run, written):
    assert "counts, orders, plain, rates" in run("dump", written, "nothing").err


def test_keys_are_typed_as_the_serde_reads_them(run, written):
    assert run("get", written, "counts", "3", "--json").document["value"] == 30
    assert run("get", written, "counts", "--key-hex", "00000003", "--json").document["key"] == 3
    assert run("get", written, "plain", "--key-hex", "0x00ff", "--json").document == {
        "key": {"hex": "00ff"},
        "value": {"hex": "fe"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("counts", "three"),
        ("counts", "--key-hex", "zz"),
        ("orders", "o-1", "--as-of", "5"),
        ("orders", "o-1", "--as-of", "1970-01-01T00:00"),
        ("orders", "o-1", "--shape", "versioned"),
        ("orders", "o-1", "--format", "plain"),
        ("rates", "CHF", "--segment-interval", "1s"),
        ("rates", "CHF", "--history-retention", "soon"),
        ("rates", "CHF", "--engine", "sqlite"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(run, written, arguments):
    ran = run("get", written, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_dump_prints_rows_in_the_order_of_their_keys(run, written):
    ran = run("dump", written, "counts")
    assert ran.lines[:2] == [
        "key  value  timestamp",
        "0    0      1970-01-01T00:00:01Z",
    ]
    assert len(ran.lines) == 6


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--limit", "2"), [0, 1]),
        (("--limit", "0"), []),
        (("--reverse", "--limit", "2"), [4, 3]),
        (("--from", "1", "--to", "3"), [1, 2, 3]),
        (("--from", "00000003", "--key-hex"), [3, 4]),
    ],
)
def test_dump_of_some_rows(run, written, options, keys):
    ran = run("dump", written, "counts", *options, "--json")
    assert [row["key"] for row in ran.documents] == keys


def test_dump_of_a_versioned_store(run, written):
    latest = run("dump", written, "rates", "--json").documents
    assert latest == [
        {"key": "CHF", "value": 1.0, "timestamp": 4000, "valid_to": None, "headers": []}
    ]
    earlier = run("dump", written, "rates", "--as-of", "2000", "--json").documents
    assert [(row["key"], row["value"], row["headers"]) for row in earlier] == [
        ("CHF", 1.25, [["source", {"hex": "ff"}]]),
        ("EEK", 15.6466, []),
    ]


def test_history_is_oldest_first_and_shows_gaps(run, written):
    found = run("history", written, "rates", "CHF", "--json").documents
    assert [(row["value"], row["timestamp"], row["valid_to"]) for row in found] == [
        (1.5, 1000, 2000),
        (1.25, 2000, 3000),
        (1.0, 4000, None),
    ]
    ran = run("history", written, "rates", "CHF")
    assert ran.lines[0].split() == ["value", "valid", "from", "valid", "to", "headers"]
    assert ran.lines[1].endswith("source=ECB")
    assert len(ran.lines) == 4


def test_history_of_a_time(run, written):
    ran = run("history", written, "rates", "CHF", "--from", "2500", "--to", "3500", "--json")
    assert [row["value"] for row in ran.documents] == [1.25]


def test_history_of_nothing(run, written):
    assert run("history", written, "rates", "XXX").code == 1
    assert run("history", written, "orders", "o-1").code == 2


def test_control_characters_are_escaped(run, written):
    ran = run("dump", written, "orders")
    assert "\x1b" not in ran.out
    assert "\\x1b[31m" in ran.out
    assert "\x1b" not in run("dump", written, "orders", "--json").out
    assert "\x1b" not in run("get", written, "orders", "\x1b[32m").err


def test_a_value_that_its_serde_cannot_read_is_shown_as_bytes(run, written):
    ran = run("dump", written, "orders", "--value-serde", "int32", "--json")
    assert [row["value"] for row in ran.documents] == ['"red"', '{"total":12}']


def test_typed_keys_and_values_are_shown(run, tmp_path):
    """The names in the spec contain the types, so no option is needed."""
    row = serdes.json_row("struct<price:decimal(5,2),at:timestamp>")
    spec = stores.key_value("items", key=serdes.DATE, value=row)
    day, at = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(spec).put(day, {"price": Decimal("1.5"), "at": at})
    shown = {"price": "1.50", "at": "2020-01-02T00:00:00Z"}
    ran = run("get", tmp_path / "0_0", "items", "2020-01-02", "--json")
    assert [(row["key"], row["value"]) for row in ran.documents] == [("2020-01-02", shown)]
    ran = run("dump", tmp_path / "0_0", "items", "--value-serde", "json", "--json")
    assert ran.documents[0]["value"] == {"price": 1.5, "at": "2020-01-02T00:00:00.000000Z"}
    ran = run("get", tmp_path / "0_0", "items", "yesterday")
    assert ran.code == 2
    assert "'yesterday' is not a key of the serde date" in ran.err
    ran = run("dump", tmp_path / "0_0", "items", "--value-serde", "decimal(50,2)")
    assert ran.code == 2
    assert "the precision must be an int from 1 to 38" in ran.err


def test_a_row_of_another_type_is_a_finding(run, tmp_path):
    row = serdes.json_row("struct<price:decimal(5,2)>")
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(stores.key_value("items", value=row)).put(b"a", {"price": 1})
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(stores.key_value("items")).put(b"b", b"{}x")
    with open_state(tmp_path / "0_0", engine="rocksdb") as state:
        state.open(stores.key_value("items", value=row))
    ran = run("verify", tmp_path / "0_0")
    assert "cannot read the value" in ran.out
    assert ran.code == 1


def test_nothing_is_written(run, written):
    def state():
        return {
            path.relative_to(written): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in written.rglob("*")
        }

    before = state()
    for arguments in (
        ("inspect", written),
        ("dump", written, "rates"),
        ("get", written, "orders", "o-1"),
        ("history", written, "rates", "CHF"),
    ):
        assert run(*arguments).code == 0
    assert state() == before


def test_a_root_of_a_topology_names_the_way_to_its_stores(run, tmp_path):
    shard = tmp_path / "live" / "subtopology-0" / "0_0"
    (shard / "commits").mkdir(parents=True)
    for path in (tmp_path, shard):
        ran = run("inspect", path)
        assert (ran.code, "kstore_core.spark.fetch_tasks" in ran.err) == (2, True)
